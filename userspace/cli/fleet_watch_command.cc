#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "userspace/base/clock.h"
#include "userspace/base/dumped_json.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/shown_text.h"
#include "userspace/cli/calling_user.h"
#include "userspace/cli/commands.h"
#include "userspace/cli/confinements.h"
#include "userspace/cli/fleet_compaction.h"
#include "userspace/cli/fleet_options.h"
#include "userspace/cli/merge_output.h"
#include "userspace/cli/option_kinds.h"
#include "userspace/cli/parse.h"
#include "userspace/cli/say.h"
#include "userspace/cli/stop_signals.h"
#include "userspace/fleet_questions/fleet_tables.h"
#include "userspace/fleet_questions/fleet_watch.h"
#include "userspace/fleet_questions/question.h"
#include "userspace/fleet_tables/align.h"
#include "userspace/sandbox/confined.h"

namespace proftrace {
namespace {

constexpr int kStopLookMs = 100;

struct WatchArguments {
  FleetQuestionOptions question;
  double every_s = 30;
  double silent_after_s = 150;
  double compact_after_s = 7200;
  bool compacts = true;
  bool once = false;
  bool json = false;
};

class WatchRun {
 public:
  explicit WatchRun(const WatchArguments& arguments)
      : arguments_(arguments), watch_(static_cast<int64_t>(arguments.silent_after_s * 1e9)) {}

  absl::Status Run() {
    // The rights are given up for good, because tables are aligned with the user's rights only.
    if (absl::Status status = GiveUpRights(); !status.ok()) return status;
    StopOnSignals();
    while (true) {
      absl::Status status = Look();
      if (StopAsked()) return absl::OkStatus();
      if (arguments_.once) return status;
      if (!status.ok() && !CanGetBetter(status)) return status;
      SayOnce(status);
      if (!WaitForNext()) return absl::OkStatus();
    }
  }

 private:
  // Returns whether a later look may succeed. A directory that others write into may be fine a
  // moment later, but a wrong command line or a host without an engine stays as it is.
  bool CanGetBetter(const absl::Status& status) const {
    return has_looked_ || ExitCodeOf(status) == ExitCode::kInputDamaged ||
           (ExitCodeOf(status) == ExitCode::kUsage && IsEmptyFleet());
  }

  bool IsEmptyFleet() const {
    const auto fleet = FleetDirectory::Open(arguments_.question.directory);
    if (!fleet.ok()) return false;
    const auto inputs = (*fleet)->Inputs();
    return inputs.ok() && inputs->empty();
  }

  absl::Status Look() {
    SayOnce(CompactOld());
    if (StopAsked()) return absl::OkStatus();
    SayOnce(AlignIfOld());
    if (StopAsked()) return absl::OkStatus();
    auto session = BeginFleetSession(arguments_.question, /*says_age=*/false);
    if (!session.ok()) return session.status();
    std::vector<std::string_view> texts;
    for (const std::string_view name : WatchQuestions()) texts.push_back(FindQuestion(name)->text);
    session->request->KeepViews(texts);
    for (const std::string_view name : WatchQuestions()) {
      session->request->Ask(*FindQuestion(name));
    }
    ReportAnswers answers;
    if (absl::Status status = AskInSession(*session, answers); !status.ok()) return status;
    has_looked_ = true;
    const int64_t now_ns = ClockNs(CLOCK_REALTIME);
    for (const WatchEvent& event : watch_.Look(answers, now_ns)) Tell(event, now_ns);
    std::fflush(stdout);
    return absl::OkStatus();
  }

  absl::Status CompactOld() const {
    if (!arguments_.compacts) return absl::OkStatus();
    const auto fleet = FleetDirectory::Open(arguments_.question.directory);
    if (!fleet.ok()) return absl::OkStatus();  // tables that something else has made
    EngineOptions engine = arguments_.question.engine;
    if (engine.kind != EngineKind::kDuckDb) return absl::OkStatus();
    engine.stop = &StopAsked();
    return CompactSummaries(**fleet, engine, arguments_.compact_after_s).status();
  }

  // Aligns the directory again where inputs have come since the last look.
  absl::Status AlignIfOld() const {
    const std::string& path = arguments_.question.directory;
    const auto fleet = FleetDirectory::Open(path);
    if (!fleet.ok()) return absl::OkStatus();  // tables that something else has made
    const absl::StatusOr<bool> is_current = IsAlignmentCurrent(**fleet);
    if (!is_current.ok()) return is_current.status();
    if (*is_current || IsEmptyFleet()) return absl::OkStatus();
    Confinement confinement = OfExport({path}, path);
    confinement.what = "aligns " + ShownText(path);
    confinement.advice = "The tables are as they were";
    return RunConfined(confinement, [&]() -> absl::Status {
      EndBySignals();
      return AlignFleet(**fleet, MergedClockOptions()).status();
    });
  }

  void Tell(const WatchEvent& event, int64_t now_ns) const {
    const std::string time =
        absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::FromUnixNanos(now_ns), absl::UTCTimeZone());
    if (arguments_.json) {
      nlohmann::ordered_json document = {{"time", time}};
      document.update(event.ToJson());
      WriteAnswer(AsciiJson(document) + "\n");
    } else {
      WriteAnswer(time + " " + event.sentence + "\n");
    }
  }

  // Prints an error, but only once if it lasts.
  void SayOnce(const absl::Status& status) {
    const std::string message(status.message());
    if (status.ok() || StopAsked()) return;
    if (told_.insert(message).second) Say("%s", message.c_str());
  }

  bool WaitForNext() const {
    const auto until =
        std::chrono::steady_clock::now() + std::chrono::duration<double>(arguments_.every_s);
    while (std::chrono::steady_clock::now() < until) {
      if (StopAsked()) return false;
      poll(nullptr, 0, kStopLookMs);
    }
    return !StopAsked();
  }

  const WatchArguments& arguments_;
  FleetWatch watch_;
  std::set<std::string> told_;
  bool has_looked_ = false;
};

}  // namespace

void AddFleetWatchCommand(CLI::App& fleet, Action* action) {
  auto arguments = std::make_shared<WatchArguments>();
  CLI::App* command = fleet.add_subcommand(
      "watch",
      "Look at a directory that flight recorders write their summaries into (record --fleet) again "
      "and again, and tell what has changed: a rank became slow, or is so for another reason, or "
      "no more; a rank has gone silent; how many ranks are seen.\n"
      "Example: proftrace fleet watch tables --every 60s");
  AddFleetQuestionOptions(command, &arguments->question);
  AddParsed(command, "--every", "TIME", &arguments->every_s, ParseDuration,
            "how often the directory is read")
      ->default_str("30s");
  AddParsed(command, "--silent-after", "TIME", &arguments->silent_after_s, ParseDuration,
            "a rank is reported as silent when other ranks of its job wrote summaries this long "
            "after its last one")
      ->default_str("150s");
  AddParsed(command, "--compact-after", "TIME", &arguments->compact_after_s, ParseDuration,
            "puts the summaries of an hour into one file for each table, as 'fleet compact' does, "
            "when the hour ended this long ago")
      ->default_str("2h");
  command->add_flag("!--no-compact", arguments->compacts, "leaves all summaries as they are");
  command->add_flag("--once", arguments->once, "reads once, prints what there is, and ends");
  command->add_flag("--json", arguments->json, "prints one JSON document a line");
  command->callback(
      [arguments, action] { *action = [arguments] { return WatchRun(*arguments).Run(); }; });
}

}  // namespace proftrace
