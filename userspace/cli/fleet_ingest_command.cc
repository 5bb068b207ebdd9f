#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "userspace/base/exit_status.h"
#include "userspace/base/shown_text.h"
#include "userspace/base/text.h"
#include "userspace/cli/commands.h"
#include "userspace/cli/confinements.h"
#include "userspace/cli/merge_output.h"
#include "userspace/cli/say.h"
#include "userspace/fleet/rank_pattern.h"
#include "userspace/fleet_tables/fleet_directory.h"
#include "userspace/fleet_tables/ingest.h"
#include "userspace/fleet_tables/summary_ingest.h"
#include "userspace/sandbox/confined.h"

namespace proftrace {
namespace {

struct IngestArguments {
  std::vector<std::string> inputs;
  std::string output;
  IngestOptions options;
  // Open descriptors of a flight recorder's capture and of the fleet's directory. `output` is only
  // for messages then.
  std::vector<int> as_summary;
};

// One run of the command. It ingests the inputs one after the other, each in a process of its own.
class IngestRun {
 public:
  IngestRun(const IngestArguments& arguments, const FleetDirectory& directory)
      : arguments_(arguments), directory_(directory) {}

  absl::Status Run() {
    const absl::StatusOr<std::vector<InputRecord>> missing = directory_.Recover();
    if (!missing.ok()) return missing.status();
    const auto known = directory_.Inputs();
    if (!known.ok()) return known.status();
    for (const auto& [name, record] : *known) by_path_[record.stamp.path] = record;
    std::vector<const std::string*> busy;
    for (const std::string& input : arguments_.inputs) {
      bool is_busy = false;
      if (absl::Status status = Take(input, /*waits=*/false, &is_busy); !status.ok()) return status;
      if (is_busy) busy.push_back(&input);
    }
    // Another process was ingesting these inputs, and may be done by now.
    for (const std::string* input : busy) {
      if (absl::Status status = Take(*input, /*waits=*/true, nullptr); !status.ok()) return status;
    }
    return Finish();
  }

 private:
  // Ingests an input. A returned error ends the run; an input that cannot be read is only counted.
  absl::Status Take(const std::string& input, bool waits, bool* is_busy) {
    const absl::StatusOr<FileStamp> stamp = StampOf(input);
    if (!stamp.ok()) return Failed(input, stamp.status());
    const auto before = by_path_.find(stamp->path);
    if (before != by_path_.end() && before->second.stamp == *stamp) {
      ++unchanged_;
      return absl::OkStatus();
    }
    const absl::StatusOr<std::string> name = NameOfFile(input);
    if (!name.ok()) return Failed(input, name.status());
    const absl::StatusOr<std::optional<FleetDirectory::Lock>> lock =
        directory_.TryLock(*name, waits);
    if (!lock.ok()) return lock.status();
    if (!lock->has_value()) {
      *is_busy = true;
      return absl::OkStatus();
    }
    InputRecord record;
    record.name = *name;
    record.stamp = *stamp;
    if (auto same = directory_.Find(*name)) return TakeSame(*std::move(same), *stamp);
    if (before != by_path_.end()) record.replaces = {before->second.name};
    const absl::Status status = ReadConfined(input, record);
    if (!status.ok()) {
      if (ExitCodeOf(status) == ExitCode::kOutputFailed) return status;
      record.failure = std::string(status.message());
      if (absl::Status written = directory_.Fail(record); !written.ok()) return written;
      return Failed(input, status);
    }
    ++(record.replaces.empty() ? added_ : replaced_);
    by_path_[stamp->path] = record;
    return absl::OkStatus();
  }

  // Handles an input whose bytes are in the directory already: under the same path with another
  // time stamp, or under another path.
  absl::Status TakeSame(InputRecord same, const FileStamp& stamp) {
    ++unchanged_;
    if (same.stamp.path != stamp.path) {
      Say("%s has the same bytes as %s, which is there", ShownText(stamp.path).c_str(),
          ShownText(same.stamp.path).c_str());
      return absl::OkStatus();
    }
    same.stamp = stamp;
    return directory_.Commit(same);
  }

  absl::Status ReadConfined(const std::string& input, const InputRecord& record) {
    Confinement confinement = OfExport({input}, arguments_.output);
    confinement.what = "reads " + ShownText(input);
    confinement.advice =
        "The input is as it was, and nothing of it is in " + ShownText(arguments_.output);
    return RunConfined(confinement, [&] {
      EndBySignals();
      return IngestInput(directory_, input, record, arguments_.options);
    });
  }

  absl::Status Failed(const std::string& input, const absl::Status& status) {
    const std::string why(status.message());
    Say("%s%s", Contains(why, input) ? "" : (ShownText(input) + ": ").c_str(), why.c_str());
    ++failed_;
    if (first_failure_.ok()) first_failure_ = status;
    return absl::OkStatus();
  }

  absl::Status Finish() const {
    Say("%s: %s added, %s replaced, %s there already, %s that cannot be read",
        ShownText(arguments_.output).c_str(), Inputs(added_).c_str(), Inputs(replaced_).c_str(),
        Inputs(unchanged_).c_str(), Inputs(failed_).c_str());
    if (failed_ == 0) return absl::OkStatus();
    const std::string text = Inputs(failed_) + " of " + std::to_string(arguments_.inputs.size()) +
                             " cannot be read; all others are in " + ShownText(arguments_.output);
    return Fail(ExitCodeOf(first_failure_), text);
  }

  static std::string Inputs(uint64_t count) { return OneOrMore(count, "input", "inputs"); }

  const IngestArguments& arguments_;
  const FleetDirectory& directory_;
  std::map<std::string, InputRecord> by_path_;
  uint64_t added_ = 0;
  uint64_t replaced_ = 0;
  uint64_t unchanged_ = 0;
  uint64_t failed_ = 0;
  absl::Status first_failure_;
};

// Adds the last minute of a flight recorder, using descriptors only.
absl::Status RunSummary(const IngestArguments& arguments) {
  if (arguments.as_summary.size() != 2) return Fail(ExitCode::kUsage, "two descriptors are needed");
  const int capture = arguments.as_summary[0];
  const int folder = arguments.as_summary[1];
  const auto directory = FleetDirectory::OfDescriptor(folder, arguments.output);
  if (!directory.ok()) return directory.status();
  Confinement confinement = OfExport(folder);
  confinement.what = "writes a summary";
  confinement.advice = "The next one is written all the same";
  return RunConfined(confinement, [&]() -> absl::Status {
    EndBySignals();
    std::vector<std::string> left_out;
    const absl::Status status = IngestSummary(
        **directory, capture, GuardedFolder::kDescriptors + std::to_string(folder), &left_out);
    for (const std::string& sentence : left_out) Say("%s", sentence.c_str());
    return status;
  });
}

absl::Status RunIngest(IngestArguments arguments) {
  if (!arguments.as_summary.empty()) return RunSummary(arguments);
  if (!arguments.options.rank_of.empty()) {
    const absl::StatusOr<RankPattern> pattern = RankPattern::Parse(arguments.options.rank_of);
    if (!pattern.ok()) return pattern.status();
  }
  absl::StatusOr<std::unique_ptr<FleetDirectory>> directory =
      FleetDirectory::OpenOrMake(arguments.output);
  if (!directory.ok()) return directory.status();
  arguments.options.scratch_directory = arguments.output;
  return IngestRun(arguments, **directory).Run();
}

}  // namespace

void AddFleetIngestCommand(CLI::App& fleet, Action* action) {
  auto arguments = std::make_shared<IngestArguments>();
  CLI::App* command = fleet.add_subcommand(
      "ingest",
      "Put recordings of many ranks into a directory of tables, or add some to it. An input that "
      "is there already is left alone, one that has changed is replaced; several ingests may run "
      "at once. 'fleet align' comes next.\n"
      "Example: proftrace fleet ingest rank*/ -o fleet");
  command->footer("INPUT... -o DIR [OPTIONS]");
  command
      ->add_option("INPUT", arguments->inputs,
                   "result directories, .ptrec files, traces of torch.profiler (.json, .json.gz), "
                   "of DFTracer (.pfw, .pfw.gz), of Nsight Systems (.sqlite)")
      ->required();
  command
      ->add_option("-o,--output", arguments->output,
                   "the directory to write into; it is made where it is missing")
      ->type_name("DIR")
      ->required();
  command
      ->add_option("--rank-of", arguments->options.rank_of,
                   "for files that do not tell their rank: a regular expression that finds it in "
                   "their path, for example 'rank_(?P<rank>[0-9]+)'")
      ->type_name("REGEX");
  command->add_flag("--salvage", arguments->options.salvage,
                    "takes the undamaged part of damaged inputs");
  command->add_option("--as-summary", arguments->as_summary)->delimiter(',')->group("");
  command->callback(
      [arguments, action] { *action = [arguments] { return RunIngest(*arguments); }; });
}

}  // namespace proftrace
