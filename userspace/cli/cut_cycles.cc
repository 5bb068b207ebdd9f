#include "userspace/cli/cut_cycles.h"

#include <string>
#include <utility>

#include "userspace/base/unique_fd.h"
#include "userspace/cli/confinements.h"
#include "userspace/sandbox/confined.h"
#include "userspace/wire/capture_reader.h"

namespace proftrace {

absl::StatusOr<std::unique_ptr<CaptureWriter>> CreateWriter(ResultDirectory* directory) {
  absl::StatusOr<int> fd = directory->CreateCapture();
  if (!fd.ok()) return fd.status();
  return CaptureWriter::Create(*fd, directory->capture_path());
}

namespace {

// Copies the cycles into `files`, the empty captures of the cycles, and takes over these
// descriptors.
absl::Status CopyCycles(std::span<const CapturePart> cycles, const ResultDirectory& whole,
                        const std::vector<ResultDirectory>& directories,
                        std::vector<UniqueFd>* files) {
  std::vector<std::unique_ptr<CaptureWriter>> owners;
  std::vector<CaptureWriter*> writers;
  for (size_t i = 0; i < cycles.size(); ++i) {
    absl::StatusOr<std::unique_ptr<CaptureWriter>> writer =
        CaptureWriter::Create((*files)[i].Release(), directories[i].capture_path());
    if (!writer.ok()) return writer.status();
    writers.push_back(writer->get());
    owners.push_back(*std::move(writer));
  }
  CaptureReader::Options options;
  options.keep_metadata_text = true;
  absl::StatusOr<std::unique_ptr<CaptureReader>> reader = whole.OpenCapture(options);
  if (!reader.ok()) return reader.status();
  return CopyCaptureParts(cycles, reader->get(), writers);
}

}  // namespace

absl::StatusOr<std::vector<ResultDirectory>> CutCycles(std::span<const CapturePart> cycles,
                                                       size_t first, bool force,
                                                       const ResultDirectory& whole) {
  std::vector<ResultDirectory> directories;
  std::vector<UniqueFd> files;
  for (size_t i = 0; i < cycles.size(); ++i) {
    absl::StatusOr<ResultDirectory> directory =
        whole.PrepareIn("cycle_" + std::to_string(first + i), force);
    if (!directory.ok()) return directory.status();
    const absl::StatusOr<int> fd = directory->CreateCapture();
    if (!fd.ok()) return fd.status();
    files.emplace_back(*fd);
    directories.push_back(*std::move(directory));
  }
  const absl::Status status = RunConfined(
      OfRecording(whole), [&] { return CopyCycles(cycles, whole, directories, &files); });
  if (!status.ok()) return status;
  return directories;
}

}  // namespace proftrace
