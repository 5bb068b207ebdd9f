#include "userspace/fleet_tables/ingest.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>
#include <vector>

#include "exporters/parquet/summary_tables.h"
#include "exporters/tables/capture_rows.h"
#include "exporters/tables/clock_rows.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/shown_text.h"
#include "userspace/base/stable_hash.h"
#include "userspace/base/unique_fd.h"
#include "userspace/fleet/rank_pattern.h"
#include "userspace/fleet_sources/capture_source.h"
#include "userspace/fleet_sources/open_source.h"
#include "userspace/fleet_tables/input_facts.h"
#include "userspace/fleet_tables/part_tables.h"
#include "userspace/fleet_tables/recorded_part.h"
#include "userspace/fleet_tables/trace_tables.h"
#include "userspace/pipeline/build_timeline.h"
#include "userspace/wire/capture_reader.h"

namespace proftrace {
namespace {

constexpr size_t kReadBytes = size_t{1} << 20;

// Returns the file of an input, which is the capture for a result directory.
std::string FileOf(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error) ? path + "/capture.ptrec" : path;
}

// Fills tables while a trace is read for its facts.
struct TablesObserver final : public SourceObserver {
  void Begin() override { tables.emplace(); }
  void See(const SourceEvent& event) override { tables->Take(event); }

  std::optional<TraceTables> tables;
};

// Ingests the parts of one input, which become one record.
class InputIngest {
 public:
  InputIngest(const FleetDirectory& directory, const std::string& path, InputRecord record,
              const IngestOptions& options)
      : directory_(directory), path_(path), record_(std::move(record)), options_(options) {
    record_.writer = getpid();
  }

  absl::Status Run() {
    absl::Status status = ReadRankPattern();
    if (status.ok()) {
      const absl::StatusOr<bool> is_capture = IsCaptureInput(path_);
      if (!is_capture.ok()) {
        status = is_capture.status();
      } else {
        status = *is_capture ? TakeCapture() : TakeTrace();
      }
    }
    if (status.ok()) return directory_.Commit(record_);
    if (is_announced_) {
      for (const std::string& file : record_.files) directory_.RemoveFile(file);
    }
    return status;
  }

 private:
  absl::Status ReadRankPattern() {
    if (options_.rank_of.empty()) return absl::OkStatus();
    absl::StatusOr<RankPattern> pattern = RankPattern::Parse(options_.rank_of);
    if (!pattern.ok()) return pattern.status();
    rank_of_ = *std::move(pattern);
    return absl::OkStatus();
  }

  std::string IdOf(const SourceFacts& facts, size_t part) const {
    StableHash hash;
    hash.Add(record_.name).Add(static_cast<int64_t>(part)).Add(facts.pid.value_or(-1));
    return hash.Hex();
  }

  absl::Status TakeCapture() {
    CaptureReader::Options options;
    options.salvage = options_.salvage;
    absl::StatusOr<std::unique_ptr<CaptureReader>> reader = CaptureReader::Open(path_, options);
    if (!reader.ok()) return reader.status();
    const std::vector<ProcessChoice> choices = ChoicesOf((*reader)->metadata());
    for (const ProcessChoice& choice : choices) {
      // The capture is read anew for each rank, because only one rank at a time fits in memory.
      if (&choice != &choices.front()) {
        reader = CaptureReader::Open(path_, options);
        if (!reader.ok()) return reader.status();
      }
      if (absl::Status status = TakePart(**reader, choice); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status TakePart(CaptureReader& reader, const ProcessChoice& choice) {
    const std::unique_ptr<RecordSource> devices = reader.DeviceRecords();
    absl::StatusOr<std::unique_ptr<Timeline>> built = BuildTimeline(
        reader.metadata(), &reader, options_.scratch_directory, devices.get(), choice);
    if (!built.ok()) return built.status();
    const RecordedPart part(**built, options_.scratch_directory);
    InputFacts facts = part.Facts(record_.stamp.path);
    facts.id = IdOf(facts.source, record_.parts.size());
    if (!reader.damage().empty()) {
      facts.source.remarks.push_back("it is damaged: " + reader.damage() +
                                     "; what is whole was taken");
    }
    TableKeys keys(part.timeline());
    keys.SetInput(facts.id, kUnnamedJob);
    PartTables tables(directory_, keys, PlaceOf(facts.source), facts.id);
    part.AddTables(facts.steps, tables);
    return FinishPart(facts, tables);
  }

  absl::Status TakeTrace() {
    SourceOptions options;
    options.salvage = options_.salvage;
    options.scratch_directory = options_.scratch_directory;
    TablesObserver observer;
    options.observer = &observer;
    absl::StatusOr<std::vector<std::unique_ptr<SourceInput>>> inputs = OpenSources(path_, options);
    if (!inputs.ok()) return inputs.status();
    for (const std::unique_ptr<SourceInput>& input : *inputs) {
      if (observer.tables) {
        observer.tables->Finish(input->facts().base_ns);
      } else {
        observer.tables.emplace();
        absl::Status status = input->ForEachEvent([&observer](const SourceEvent& event) {
          observer.See(event);
          return absl::OkStatus();
        });
        if (!status.ok()) return status;
        observer.tables->Finish();
      }
      if (absl::Status status = TakeSource(*input, *observer.tables); !status.ok()) return status;
      observer.tables.reset();
    }
    return absl::OkStatus();
  }

  absl::Status TakeSource(SourceInput& input, const TraceTables& trace) {
    InputFacts facts;
    facts.source = input.facts();
    SourceFacts& source = facts.source;
    source.head.clear();
    if (!source.rank && rank_of_) source.rank = rank_of_->RankOf(path_);
    source.path = record_.stamp.path;
    facts.id = IdOf(source, record_.parts.size());
    facts.steps = trace.steps();
    const RowKeys place = PlaceOf(source);
    TableKeys keys(place);
    keys.SetInput(facts.id, kUnnamedJob);
    PartTables tables(directory_, keys, place, facts.id);
    const auto none = [](const auto&) {};
    tables.Add<CaptureRow>("recordings", none);
    tables.Add<ClockRow>("clock_readings", none);
    tables.Add<ProcessRow>("processes", [&](auto add) { AddProcess(source, add); });
    tables.Add<StepRow>("steps", [&](auto add) {
      for (const StepRow& row : trace.steps()) add(row);
    });
    tables.Add<CollectiveCallRow>("collectives", [&](auto add) { AddCalls(facts, add); });
    tables.Add<OperatorRow>("operators", [&](auto add) { trace.ForEachOperator(add); });
    tables.Add<KernelRow>("kernels", [&](auto add) { trace.ForEachKernel(source.pid, add); });
    tables.Add<MemoryRow>("memory", none);
    tables.Add<GpuIdleRow>("gpu_idle", none);
    tables.Add<DataWaitRow>("data_waits", none);
    tables.Add<IoRow>("io", none);
    tables.Add<WaitRow>("waits", none);
    tables.Add<LossRow>("losses", none);
    return FinishPart(facts, tables);
  }

  template <typename Add>
  static void AddProcess(const SourceFacts& source, const Add& add) {
    if (!source.pid || *source.pid < 0 || *source.pid > UINT32_MAX) return;
    ProcessRow row;
    row.pid = static_cast<uint32_t>(*source.pid);
    row.rank = source.rank;
    row.world_size = source.world_size;
    add(row);
  }

  template <typename Add>
  static void AddCalls(const InputFacts& facts, const Add& add) {
    const SourceFacts& source = facts.source;
    std::vector<GroupTexts> groups;
    for (size_t i = 0; i < source.groups.size(); ++i) {
      groups.push_back(TextsOfGroup(source.groups[i], source.group_descriptions[i]));
    }
    const GroupTexts none;
    const auto add_call = [&](const SourceCall& call, const GroupTexts& group) {
      CollectiveCallRow row = RowOfCall(call, group, facts.unix_offset_ns);
      if (source.pid && *source.pid >= 0 && *source.pid <= UINT32_MAX) {
        row.pid = static_cast<uint32_t>(*source.pid);
      }
      row.step = StepAt(facts.steps, row.begin_ns);
      add(row);
    };
    for (const SourceCall& call : source.calls) add_call(call, groups[call.call.group]);
    for (const SourceCall& call : source.calls_without_group) add_call(call, none);
  }

  // Gives the part's files their names. No file is there before the part was announced; after that
  // all files appear, unless the process is killed.
  absl::Status FinishPart(InputFacts& facts, PartTables& tables) {
    facts.bytes = static_cast<uint64_t>(record_.stamp.bytes);
    tables.AddFacts(facts);
    if (!tables.status().ok()) return tables.status();
    record_.parts.push_back(facts.id);
    record_.files.insert(record_.files.end(), tables.files().begin(), tables.files().end());
    if (absl::Status status = directory_.Announce(record_); !status.ok()) return status;
    is_announced_ = true;
    return tables.Finish();
  }

  const FleetDirectory& directory_;
  const std::string& path_;
  InputRecord record_;
  const IngestOptions& options_;
  std::optional<RankPattern> rank_of_;
  bool is_announced_ = false;
};

}  // namespace

absl::StatusOr<FileStamp> StampOf(const std::string& path) {
  const std::string file = FileOf(path);
  struct stat info {};
  if (stat(file.c_str(), &info) != 0) {
    return Fail(ExitCode::kUsage, "cannot read " + ShownText(file) + ": " + ErrnoText(errno));
  }
  if (!S_ISREG(info.st_mode)) {
    return Fail(ExitCode::kUsage, ShownText(file) + " is no file; write it into one first");
  }
  FileStamp stamp;
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::canonical(path, error);
  stamp.path = error ? path : whole.string();
  stamp.bytes = info.st_size;
  stamp.modified_ns = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
  stamp.inode = static_cast<int64_t>(info.st_ino);
  return stamp;
}

absl::StatusOr<std::string> NameOfFile(const std::string& path) {
  const std::string file = FileOf(path);
  const UniqueFd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    return Fail(ExitCode::kUsage, "cannot read " + ShownText(file) + ": " + ErrnoText(errno));
  }
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                              XXH3_freeState);
  XXH3_64bits_reset(state.get());
  std::string buffer(kReadBytes, '\0');
  while (true) {
    const ssize_t got = read(fd.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return Fail(ExitCode::kInputDamaged,
                  "cannot read " + ShownText(file) + ": " + ErrnoText(errno));
    }
    if (got == 0) break;
    XXH3_64bits_update(state.get(), buffer.data(), static_cast<size_t>(got));
  }
  return StableHash().Add(static_cast<int64_t>(XXH3_64bits_digest(state.get()))).Hex();
}

absl::Status IngestInput(const FleetDirectory& directory, const std::string& path,
                         InputRecord record, const IngestOptions& options) {
  return InputIngest(directory, path, std::move(record), options).Run();
}

}  // namespace proftrace
