#include "userspace/fleet_tables/summary_ingest.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/stable_hash.h"
#include "userspace/base/text.h"
#include "userspace/base/unique_fd.h"
#include "userspace/fleet_sources/capture_source.h"
#include "userspace/fleet_tables/part_tables.h"
#include "userspace/fleet_tables/recorded_part.h"
#include "userspace/pipeline/build_timeline.h"
#include "userspace/wire/capture_reader.h"

namespace proftrace {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr char kCaptureName[] = "the flight recorder's capture";

class SummaryIngest {
 public:
  SummaryIngest(const FleetDirectory& directory, int capture_fd, std::string scratch_directory,
                std::vector<std::string>* left_out)
      : directory_(directory),
        capture_fd_(capture_fd),
        scratch_directory_(std::move(scratch_directory)),
        left_out_(left_out) {}

  absl::Status Run() {
    auto reader = OpenReader();
    if (!reader.ok()) return reader.status();
    const std::vector<ProcessChoice> choices = ChoicesOf((*reader)->metadata());
    for (const ProcessChoice& choice : choices) {
      // The capture is read anew for each process, because only one at a time fits in memory.
      if (&choice != &choices.front()) {
        reader = OpenReader();
        if (!reader.ok()) return reader.status();
      }
      if (absl::Status status = TakePart(**reader, choice); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<std::unique_ptr<CaptureReader>> OpenReader() const {
    UniqueFd fd(fcntl(capture_fd_, F_DUPFD_CLOEXEC, 0));
    if (!fd.valid() || lseek(fd.get(), 0, SEEK_SET) != 0) {
      return Fail(ExitCode::kInputDamaged,
                  std::string("cannot read ") + kCaptureName + ": " + ErrnoText(errno));
    }
    return CaptureReader::OpenFile(fd.Release(), kCaptureName, {});
  }

  absl::Status TakePart(CaptureReader& reader, const ProcessChoice& choice) {
    const std::unique_ptr<RecordSource> devices = reader.DeviceRecords();
    absl::StatusOr<std::unique_ptr<Timeline>> built =
        BuildTimeline(reader.metadata(), &reader, scratch_directory_, devices.get(), choice);
    if (!built.ok()) return built.status();
    const RecordedPart part(**built, scratch_directory_);
    InputFacts facts = part.Facts("");
    const SourceFacts& source = facts.source;
    // The end is rounded to seconds, because recorders wait for the same full second of their wall
    // clocks.
    const int64_t end_ns = *source.last_ns + facts.unix_offset_ns;
    facts.window_end_s = (end_ns + kSecondNs / 2) / kSecondNs;
    facts.source.path =
        absl::StrFormat("the flight recorder of PID %d on %s", source.pid.value_or(0), source.host);
    // The ID depends on the process alone, so that the summaries of several recorders are one
    // series.
    facts.id = StableHash()
                   .Add(source.boot_id.value_or(source.host))
                   .Add(source.pid.value_or(-1))
                   .Add(source.rank.value_or(-1))
                   .Add(source.job)
                   .Add(source.attempt)
                   .Hex();
    return Write(part, facts);
  }

  absl::Status Write(const RecordedPart& part, InputFacts& facts) {
    InputRecord record;
    record.name = StableHash().Add(facts.id).Add(*facts.window_end_s).Hex();
    record.is_summary = true;
    record.writer = getpid();
    record.stamp.path = absl::StrCat(facts.source.path, ", until ", *facts.window_end_s);
    struct stat info {};
    if (fstat(capture_fd_, &info) == 0) record.stamp.bytes = info.st_size;
    const auto lock = directory_.TryLock(record.name, /*waits=*/true);
    if (!lock.ok()) return lock.status();
    if (directory_.Find(record.name)) {
      left_out_->push_back(facts.source.path +
                           " is not the only one: another proftrace has summarised that time");
      return absl::OkStatus();
    }
    const std::string file = absl::StrCat(facts.id, "-", *facts.window_end_s);
    facts.bytes = static_cast<uint64_t>(record.stamp.bytes);
    TableKeys keys(part.timeline());
    keys.SetInput(facts.id, kUnnamedJob);
    PartTables tables(directory_, keys, PlaceOf(facts.source), file);
    tables.KeepSmall();
    part.AddTables(facts.steps, tables);
    tables.AddFacts(facts);
    if (!tables.status().ok()) return tables.status();
    record.parts = {file};
    record.files = tables.files();
    absl::Status status = directory_.Announce(record);
    if (status.ok()) status = tables.Finish();
    if (status.ok()) status = directory_.Commit(record);
    if (!status.ok()) directory_.Discard(record);
    return status;
  }

  const FleetDirectory& directory_;
  const int capture_fd_;
  const std::string scratch_directory_;
  std::vector<std::string>* const left_out_;
};

}  // namespace

absl::Status IngestSummary(const FleetDirectory& directory, int capture_fd,
                           const std::string& scratch_directory,
                           std::vector<std::string>* left_out) {
  return SummaryIngest(directory, capture_fd, scratch_directory, left_out).Run();
}

}  // namespace proftrace
