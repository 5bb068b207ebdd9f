#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "userspace/base/exit_status.h"
#include "userspace/base/shown_text.h"
#include "userspace/base/text.h"
#include "userspace/cli/clock_options.h"
#include "userspace/cli/commands.h"
#include "userspace/cli/confinements.h"
#include "userspace/cli/merge_output.h"
#include "userspace/cli/say.h"
#include "userspace/fleet_tables/align.h"
#include "userspace/sandbox/confined.h"

namespace proftrace {
namespace {

struct AlignArguments {
  std::string directory;
  ClockChoice choice;
  MergedClockOptions clock;
  bool json = false;
};

void SayJob(const AlignedJob& job) {
  const std::string name = job.job.empty() ? "the job" : "job " + ShownText(job.job);
  for (const std::string& remark : job.remarks) Say("%s", ShownText(remark).c_str());
  if (!job.problem.empty()) Say("%s: %s", name.c_str(), ShownText(job.problem).c_str());
  if (job.is_left_out) return;
  for (const std::string& finding : job.clock.findings) Say("%s", ShownText(finding).c_str());
  Say("%s, %s: %s", name.c_str(), OneOrMore(job.ranks, "rank", "ranks").c_str(),
      ShownText(job.clock.Line()).c_str());
}

void SayAlignment(const AlignArguments& arguments, const Alignment& alignment) {
  for (const InputRecord& record : alignment.missing) {
    Say("missing: %s: %s", ShownText(record.stamp.path).c_str(), ShownText(record.failure).c_str());
  }
  for (const AlignedJob& job : alignment.jobs) SayJob(job);
  Say("%s: %s, %s, %s", ShownText(arguments.directory).c_str(),
      OneOrMore(alignment.inputs, "input", "inputs").c_str(),
      OneOrMore(alignment.steps, "step", "steps").c_str(),
      OneOrMore(alignment.collectives, "row of collectives", "rows of collectives").c_str());
}

absl::Status RunAlign(const AlignArguments& arguments) {
  const absl::StatusOr<std::unique_ptr<FleetDirectory>> directory =
      FleetDirectory::Open(arguments.directory);
  if (!directory.ok()) return directory.status();
  std::vector<std::string> reads = {arguments.directory};
  if (!arguments.choice.path.empty()) reads.push_back(arguments.choice.path);
  Confinement confinement = OfExport(reads, arguments.directory);
  confinement.what = "aligns " + ShownText(arguments.directory);
  confinement.advice = "The tables that were ingested are as they were";
  return RunConfined(confinement, [&]() -> absl::Status {
    EndBySignals();
    MergedClockOptions clock = arguments.clock;
    if (absl::Status status = ReadClock(arguments.choice, &clock); !status.ok()) return status;
    const absl::StatusOr<Alignment> alignment = AlignFleet(**directory, clock);
    if (!alignment.ok()) return alignment.status();
    if (arguments.json) {
      PrintDocument(nlohmann::json::parse(alignment->ToJson()));
    } else {
      SayAlignment(arguments, *alignment);
    }
    for (const AlignedJob& job : alignment->jobs) {
      if (job.problem.empty()) continue;
      return Fail(ExitCode::kInputsDisagree,
                  job.is_left_out
                      ? "a job is left out, since its inputs do not belong together: " + job.problem
                      : "a job is not aligned, and has its hosts' wall clocks: " + job.problem);
    }
    return absl::OkStatus();
  });
}

}  // namespace

void AddFleetAlignCommand(CLI::App& fleet, Action* action) {
  auto arguments = std::make_shared<AlignArguments>();
  CLI::App* command = fleet.add_subcommand(
      "align",
      "Put the ranks of a directory of tables on one clock and one count of steps, and state the "
      "clock's error. Questions are asked of what this writes.\n"
      "Example: proftrace fleet align fleet");
  command->footer("DIR [OPTIONS]");
  command->add_option("DIR", arguments->directory, "the directory that 'fleet ingest' has written")
      ->required();
  AddClockOptions(command, &arguments->choice, &arguments->clock);
  command->add_flag("--json", arguments->json, "prints what was aligned as one JSON document");
  command->callback(
      [arguments, action] { *action = [arguments] { return RunAlign(*arguments); }; });
}

}  // namespace proftrace
