#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <memory>
#include <optional>
#include <string>

#include "symbols/plan/process.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/text.h"
#include "userspace/base/unique_fd.h"
#include "userspace/capture/session/recorder.h"
#include "userspace/cli/commands.h"
#include "userspace/cli/confinements.h"
#include "userspace/cli/json_schema.h"
#include "userspace/cli/message_catcher.h"
#include "userspace/cli/option_help.h"
#include "userspace/cli/option_kinds.h"
#include "userspace/cli/parse.h"
#include "userspace/cli/record_arguments.h"
#include "userspace/cli/record_messages.h"
#include "userspace/cli/result_name.h"
#include "userspace/cli/say.h"
#include "userspace/cli/stop_signals.h"
#include "userspace/cli/terminal_screen.h"
#include "userspace/cli/top_desk.h"
#include "userspace/cli/top_viewer.h"
#include "userspace/sandbox/confined.h"

namespace proftrace {
namespace {

constexpr double kLeastIntervalS = 0.2;
constexpr double kLongestIntervalS = 3600;
constexpr double kDefaultWindowS = 10;
constexpr char kKeptReason[] = "kept from proftrace top";
constexpr int kLongestEndMs = 2000;
constexpr int kEndLookMs = 5;

constexpr std::array<Choice<TopView>, kTopViews> kViews = {{{"operators", TopView::kOperators},
                                                            {"modules", TopView::kModules},
                                                            {"python", TopView::kPython},
                                                            {"threads", TopView::kThreads},
                                                            {"files", TopView::kFiles},
                                                            {"waits", TopView::kWaits},
                                                            {"gpu", TopView::kGpu}}};

struct TopArguments {
  RecordArguments record;
  TopViewOptions view;
  bool is_once = false;
  bool is_json = false;
  double interval_s = 1;
  size_t sort = 1;  // the number of a column, from 1 on
};

absl::StatusOr<double> ParseInterval(const std::string& text) {
  absl::StatusOr<double> seconds = ParseDuration(text);
  if (seconds.ok() && (*seconds < kLeastIntervalS || *seconds > kLongestIntervalS)) {
    return Fail(ExitCode::kUsage, "must be between 200ms and 60m");
  }
  return seconds;
}

// Descriptors that both processes use. They are made before the second process is started.
struct TopLink {
  UniqueFd recorder;  // the two ends of a pair of sockets
  UniqueFd viewer;
  UniqueFd capture;          // a file in memory
  UniqueFd capture_to_read;  // the same file, opened for reading only
};

absl::StatusOr<TopLink> MakeLink() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return NoMoreDescriptors(errno);
  }
  TopLink link;
  link.recorder = UniqueFd(ends[0]);
  link.viewer = UniqueFd(ends[1]);
  link.capture = UniqueFd(memfd_create("proftrace-top", MFD_CLOEXEC));
  const std::string path = "/proc/self/fd/" + std::to_string(link.capture.get());
  link.capture_to_read = UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!link.capture.valid() || !link.capture_to_read.valid()) {
    return Fail(ExitCode::kHostUnfit,
                "cannot make a file in memory for the last seconds: " + ErrnoText(errno));
  }
  return link;
}

absl::Status ChooseOutput(TopArguments* arguments) {
  TopViewOptions& view = arguments->view;
  view.is_once = arguments->is_once;
  view.interval_s = arguments->interval_s;
  view.state.sort_columns[static_cast<size_t>(view.state.view)] = arguments->sort - 1;
  if (arguments->is_json) {
    view.output = TopOutput::kJson;
  } else if (arguments->is_once) {
    view.output = TopOutput::kOnce;
  } else if (isatty(STDOUT_FILENO) == 0) {
    return Fail(ExitCode::kUsage,
                "standard output is no terminal: --once prints one screen, --json an object for "
                "each refresh");
  } else {
    view.output = TerminalScreen::CanShow() ? TopOutput::kScreen : TopOutput::kPlain;
  }
  return absl::OkStatus();
}

absl::Status Complete(TopArguments* arguments, bool has_command) {
  RecordArguments& record = arguments->record;
  RecordOptions& options = record.options;
  if (has_command || (options.pids.empty() != options.all)) {
    return Fail(ExitCode::kUsage,
                "give what to show: -p PID of a running process, or -a for every PyTorch process");
  }
  // These activities give the parts of a step and the tables.
  if (!record.activities.has_value() && !options.without_bpf) {
    options.info.system.io = options.info.system.sched = true;
  }
  if (!record.flight.window_s.has_value()) record.flight.window_s = kDefaultWindowS;
  absl::Status status = CompleteOptions(&record, /*has_command=*/false);
  if (status.ok()) status = ChooseFormats(record).status();
  if (status.ok()) status = ChooseOutput(arguments);
  if (!status.ok()) return status;
  arguments->view.window_ns = options.flight->window_ns;
  options.flight->asked_reason = kKeptReason;
  options.flight->asks_for_past = true;
  // top's own screen replaces the live line.
  record.no_progress = true;
  return absl::OkStatus();
}

// Reads the facts of the processes to be shown, so that a missing one is reported before anything
// is begun.
absl::Status ReadTargets(const RecordArguments& record, std::string* comm, ResultNameFacts* facts) {
  const RecordOptions& options = record.options;
  *facts = OwnNameFacts(/*of_command=*/false);
  *comm = "all";
  facts->pid = Pid{static_cast<uint32_t>(getpid())};
  for (const Pid pid : options.pids) {
    const absl::StatusOr<ProcessInfo> info = ReadProcessInfo(pid);
    if (!info.ok()) return info.status();
    if (pid != options.pids.front()) continue;
    *comm = info->comm;
    TakeJob(*info, options.pids.size() == 1, facts);
    facts->pid = pid;
  }
  return absl::OkStatus();
}

// Waits for the viewer, which was told to end. `is_screen`: the viewer is killed where it takes too
// long, because it has no output that matters.
absl::Status EndViewer(ConfinedChild* viewer, bool is_screen) {
  if (!is_screen) return viewer->Wait();
  kill(viewer->pid(), SIGCONT);
  siginfo_t state{};
  for (int waited_ms = 0; waited_ms < kLongestEndMs; waited_ms += kEndLookMs) {
    const int flags = WEXITED | WNOHANG | WNOWAIT;
    if (waitid(P_PID, static_cast<id_t>(viewer->pid()), &state, flags) < 0 || state.si_pid != 0) {
      return viewer->Wait();
    }
    usleep(kEndLookMs * 1000);
  }
  kill(viewer->pid(), SIGKILL);
  (void)viewer->Wait();
  return absl::OkStatus();
}

Confinement OfViewer() {
  Confinement confinement = OfReport({});
  confinement.is_viewer = true;
  confinement.what = "shows the job";
  confinement.advice = "The job goes on as it was";
  return confinement;
}

// Makes the directory for kept recordings, where one is named, so that an error is reported before
// anything is begun.
absl::Status PrepareKept(const RecordArguments& record, TopDesk::Options* desk) {
  desk->pids = record.options.pids;
  desk->formats = record.formats;
  desk->force = record.force;
  if (record.output.empty()) return absl::OkStatus();
  const absl::StatusOr<std::string> path = ResultNameOf(record.output, desk->facts);
  if (!path.ok()) return path.status();
  absl::StatusOr<ResultDirectory> made = ResultDirectory::Prepare(*path, record.force);
  if (!made.ok()) return made.status();
  desk->directory = *std::move(made);
  return absl::OkStatus();
}

// Records until the end, while `viewer` shows what the TopDesk gives it.
absl::Status RecordAndShow(TopArguments* arguments, TopDesk::Options desk_options,
                           ConfinedChild* viewer) {
  RecordArguments& record = arguments->record;
  const bool is_screen = arguments->view.output == TopOutput::kScreen;
  MessageCatcher catcher;
  desk_options.catcher = &catcher;
  desk_options.stop = &StopAsked();
  TopDesk desk(std::move(desk_options));
  record.options.flight->signals = desk.asked();
  const auto targets = std::make_shared<RecordedTargets>();
  targets->pids = record.options.pids;
  RecordCallbacks callbacks = TellingCallbacks(record, targets);
  TerminalScreen screen;
  callbacks.on_ready = [&, tell = callbacks.on_ready](const Ready& ready) {
    if (StopAsked().load(std::memory_order_relaxed)) return;
    if (tell) tell(ready);
    if (is_screen) catcher.Start();
    if (is_screen) screen.Enter(viewer->pid());
    desk.Begin();
  };
  callbacks.on_dump = [&desk](FlightDump dump) { desk.Take(std::move(dump)); };
  RecordResult result = Record(record.options, nullptr, callbacks, StopAsked());
  desk.End(is_screen || !result.attached ? std::nullopt : std::move(result.last_dump));
  const absl::Status shown = EndViewer(viewer, is_screen);
  screen.Leave();
  catcher.Stop();
  const absl::Status kept = desk.FinishKept();
  if (result.targets_ended && !record.quiet) Say("all shown processes have ended");
  for (const absl::Status& status : {result.status, shown, kept, result.code}) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status RunTop(TopArguments arguments, bool has_command) {
  absl::Status status = Complete(&arguments, has_command);
  if (!status.ok()) return status;
  StopOnSignals();
  TopDesk::Options desk;
  status = ReadTargets(arguments.record, &desk.comm, &desk.facts);
  if (status.ok()) status = PrepareKept(arguments.record, &desk);
  if (!status.ok()) return status;
  absl::StatusOr<TopLink> link = MakeLink();
  if (!link.ok()) return link.status();
  absl::StatusOr<ConfinedChild> viewer = ConfinedChild::Start(OfViewer(), [&] {
    link->recorder = UniqueFd();
    link->capture = UniqueFd();
    return ShowTop(arguments.view, link->viewer.get(), link->capture_to_read.get());
  });
  if (!viewer.ok()) return viewer.status();
  link->viewer = UniqueFd();
  desk.socket = link->recorder.get();
  desk.capture = link->capture.get();
  return RecordAndShow(&arguments, std::move(desk), &*viewer);
}

void AddViewOptions(CLI::App* top, TopArguments* arguments) {
  AddParsed(
      top, "--interval", "TIME", &arguments->interval_s, ParseInterval,
      "the time between refreshes. It becomes longer where a refresh takes more than half of it")
      ->default_str("1s")
      ->group(kGroupWhen);
  AddParsed(top, "--window", "TIME", &arguments->record.flight.window_s, ParseWindow,
            "the figures are of these last seconds, and the key r keeps these seconds. Choose it "
            "so that a few steps of the job are in it")
      ->default_str("10s")
      ->group(kGroupWhen);
  AddParsed(top, "--window-memory", "SIZE", &arguments->record.flight.most_bytes, ParseFlightMemory,
            "the most memory for these seconds, which are compressed. Where it is too little, the "
            "figures are of fewer seconds, and the screen says so")
      ->default_str("256M")
      ->group(kGroupWhen);
  AddParsed(top, "-d,--duration", "TIME", &arguments->record.options.duration_s, ParseDuration,
            "how long to show, for example 10s, 250ms or 2m. Without it proftrace shows until q, "
            "^C or the target's end")
      ->group(kGroupWhen);
  top->add_flag("--once", arguments->is_once, "prints one screen as text, of one window, and ends")
      ->group(kGroupOutputs);
  top->add_flag("--json", arguments->is_json,
                "prints one JSON object a line for each refresh (NDJSON); with --once only one")
      ->group(kGroupOutputs);
  AddJsonSchema(top)->group(kGroupOutputs);
  AddChoice(top, "--view", &arguments->view.state.view, kViews, "the table that is shown first")
      ->group(kGroupOutputs);
  top->add_option("--sort", arguments->sort,
                  "sorts the table by this column, counted from the left")
      ->type_name("N")
      ->check(CLI::Range(size_t{1}, size_t{9}))
      ->capture_default_str()
      ->group(kGroupOutputs);
  top->add_option("--filter", arguments->view.state.filter,
                  "shows only names that contain this text, in upper or lower case")
      ->type_name("TEXT")
      ->group(kGroupOutputs);
  top->add_option("--rows", arguments->view.rows,
                  "the number of rows in each table of --once and --json")
      ->type_name("N")
      ->check(CLI::Range(size_t{1}, kMostTopRows))
      ->capture_default_str()
      ->group(kGroupOutputs);
}

void AddKeptOptions(CLI::App* top, RecordArguments* record) {
  top->add_option("-o,--output", record->output,
                  "the directory, missing or empty, for what the key r keeps: dump_0, dump_1 and "
                  "so on in it. %h is the host, %r the rank, %p the PID, %a the attempt")
      ->type_name("PATH")
      ->group(kGroupOutputs);
  top->add_option("--format", record->formats,
                  "the outputs that the key r writes, separated by commas; none: only the capture")
      ->type_name("LIST")
      ->capture_default_str()
      ->group(kGroupOutputs);
  top->add_flag("--force", record->force, "writes into a directory that is not empty, too")
      ->group(kGroupOutputs);
  top->add_flag("-q,--quiet", record->quiet, "prints only errors")->group(kGroupMessages);
  top->get_help_ptr()->group(kGroupMessages);
}

}  // namespace

void AddTopCommand(CLI::App& app, const std::vector<std::string>& all,
                   const std::vector<std::string>& command, Action* action) {
  auto arguments = std::make_shared<TopArguments>();
  arguments->record.options.info.arguments = all;
  CLI::App* top = app.add_subcommand(
      "top",
      "Show live what running PyTorch processes do, a step: how long steps take and what for, "
      "operators, modules, functions of Python, threads, files, waits and GPUs of the last "
      "seconds. The key ? shows the keys.\n"
      "Example: sudo proftrace top -p 4711");
  top->footer("[OPTIONS] (-p PID | -a)");
  AddTracingOptions(top, &arguments->record);
  AddViewOptions(top, arguments.get());
  AddKeptOptions(top, &arguments->record);
  top->callback([arguments, has_command = !command.empty(), action] {
    *action = [arguments, has_command] { return RunTop(*arguments, has_command); };
  });
}

}  // namespace proftrace
