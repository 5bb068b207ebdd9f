#include "userspace/cli/cut_cycles.h"

#include <string>
#include <utility>

#include "userspace/wire/capture_reader.h"

namespace proftrace {

absl::StatusOr<std::unique_ptr<CaptureWriter>> CreateWriter(ResultDirectory* directory) {
  absl::StatusOr<int> fd = directory->CreateCapture();
  if (!fd.ok()) return fd.status();
  return CaptureWriter::Create(*fd, directory->capture_path());
}

absl::StatusOr<std::vector<ResultDirectory>> CutCycles(std::span<const CapturePart> cycles,
                                                       size_t first, bool force,
                                                       const ResultDirectory& whole) {
  std::vector<ResultDirectory> directories;
  std::vector<std::unique_ptr<CaptureWriter>> owners;
  std::vector<CaptureWriter*> writers;
  for (size_t i = 0; i < cycles.size(); ++i) {
    absl::StatusOr<ResultDirectory> directory =
        whole.PrepareIn("cycle_" + std::to_string(first + i), force);
    if (!directory.ok()) return directory.status();
    absl::StatusOr<std::unique_ptr<CaptureWriter>> writer = CreateWriter(&*directory);
    if (!writer.ok()) return writer.status();
    directories.push_back(*std::move(directory));
    writers.push_back(writer->get());
    owners.push_back(*std::move(writer));
  }
  CaptureReader::Options options;
  options.keep_metadata_text = true;
  absl::StatusOr<std::unique_ptr<CaptureReader>> reader = whole.OpenCapture(options);
  if (!reader.ok()) return reader.status();
  if (absl::Status status = CopyCaptureParts(cycles, reader->get(), writers); !status.ok()) {
    return status;
  }
  return directories;
}

}  // namespace proftrace
