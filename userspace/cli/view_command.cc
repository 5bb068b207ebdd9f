#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "userspace/base/exit_status.h"
#include "userspace/base/text.h"
#include "userspace/cli/browser.h"
#include "userspace/cli/calling_user.h"
#include "userspace/cli/commands.h"
#include "userspace/cli/say.h"
#include "userspace/cli/stop_signals.h"
#include "userspace/cli/viewed_result.h"
#include "userspace/sandbox/filter.h"
#include "userspace/sandbox/reach.h"
#include "userspace/sandbox/rights.h"
#include "userspace/view/http_server.h"
#include "userspace/view/pages.h"
#include "userspace/view/ui_folder.h"

namespace proftrace {
namespace {

constexpr char kPerfetto[] = "https://ui.perfetto.dev/";
constexpr char kSpeedscope[] = "https://www.speedscope.app/";
constexpr size_t kTokenBytes = 20;  // the token has 160 bits
constexpr uint64_t kLargeTraceBytes = 500'000'000;
// The UID of "nobody", the user without files (Debian, Red Hat).
constexpr uid_t kNobody = 65534;

struct ViewArguments {
  std::string result;
  std::string perfetto_ui = kPerfetto;
  std::string speedscope_ui = kSpeedscope;
  uint16_t port = 0;
  bool no_browser = false;
  bool salvage = false;
};

// Returns the address of a page that the report links to: the given address or, for a given folder,
// `prefix`, under which the folder is served.
absl::StatusOr<std::string> AddUi(const std::string& place, const std::string& prefix,
                                  const std::string& option, ServedFiles* files) {
  if (Contains(place, "://")) {
    if (OriginOf(place).has_value() && !Contains(place, "#")) return place;
    return Fail(ExitCode::kUsage, option + " " + place +
                                      ": this is no address that a browser can open; give "
                                      "https://… or a folder");
  }
  if (absl::Status status = AddUiFolder(place, prefix, option, files); !status.ok()) return status;
  return prefix;
}

absl::StatusOr<std::string> NewToken() {
  std::array<unsigned char, kTokenBytes> bytes;
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return Fail(ExitCode::kHostUnfit, "no random bytes can be had: " + ErrnoText(errno));
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string token;
  for (const unsigned char byte : bytes) {
    token.push_back(kDigits[byte >> 4]);
    token.push_back(kDigits[byte & 15]);
  }
  return token;
}

// Returns the user who called sudo; nullopt where nobody did, or root did.
std::optional<CallingUser> CallerOfSudo() {
  std::optional<CallingUser> caller = UserOfSudo();
  return caller.has_value() && caller->uid != 0 ? caller : std::nullopt;
}

// Returns the user as whom a server that root has started runs: the user who called sudo, else the
// result's owner, or "nobody" for a result of root.
CallingUser ServingUser(const std::optional<CallingUser>& caller, const ViewedResult& result) {
  if (caller.has_value()) return *caller;
  if (result.owner_uid != 0) {
    return CallingUser{result.owner_uid, result.owner_gid, {result.owner_gid}, {}};
  }
  return CallingUser{kNobody, kNobody, {kNobody}, {}};
}

// Gives up all rights: from here on this process can open no file and start no program, and has no
// capability. Other processes of the same user cannot read its memory, because that user may be
// "nobody", whom many programs share.
absl::Status GiveUpAllRights(const std::optional<CallingUser>& user) {
  if (user.has_value() && !BecomeUser(*user)) {
    return Fail(ExitCode::kNotPermitted, "cannot give up root's rights: " + ErrnoText(errno) +
                                             "; call it as the user to whom the result belongs");
  }
  if (!DropCapabilities({}) || !NoNewRights() || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) {
    return Fail(ExitCode::kNotPermitted, "cannot give up rights: " + ErrnoText(errno));
  }
  return absl::OkStatus();
}

std::string HostName() {
  char name[256] = "";
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "HOST";
}

// Returns the address by which the user's own machine reaches this one, as sshd has told it; else
// the host's name.
std::string HostForSsh() {
  const char* connection = std::getenv("SSH_CONNECTION");
  if (connection == nullptr) return HostName();
  // The words are the client, its port, this host, and its port.
  const std::vector<std::string_view> words = SplitText(connection, " ", /*skip_empty=*/true);
  return words.size() == 4 ? std::string(words[2]) : HostName();
}

bool IsInSsh() {
  return std::getenv("SSH_CONNECTION") != nullptr || std::getenv("SSH_TTY") != nullptr;
}

void SayHowToOpen(uint16_t port, bool is_opened) {
  if (is_opened) {
    Say("the browser opens it; ^C ends it");
    return;
  }
  Say("open this address in a browser here; ^C ends it. From another machine type there first: ssh "
      "-L %d:127.0.0.1:%d %s",
      port, port, HostForSsh().c_str());
}

// Opens all files that are served, and makes missing ones.
absl::StatusOr<ServedFiles> OpenFiles(const ViewArguments& arguments, ViewedResult* result) {
  ServedFiles files;
  const absl::StatusOr<std::string> perfetto =
      AddUi(arguments.perfetto_ui, "perfetto/", "--perfetto-ui", &files);
  if (!perfetto.ok()) return perfetto.status();
  const absl::StatusOr<std::string> speedscope =
      AddUi(arguments.speedscope_ui, "speedscope/", "--speedscope-ui", &files);
  if (!speedscope.ok()) return speedscope.status();
  absl::Status made = MakeMissing(arguments.result, arguments.salvage, result);
  if (!made.ok()) return made;
  const ViewFacts facts{result->title, result->trace, result->speedscope, *perfetto, *speedscope};
  absl::Status added = AddPages(result->report, facts, &files);
  if (!added.ok()) return added;
  return files;
}

void SayLargeTrace(const ViewedResult& result) {
  if (!result.trace.has_value() || result.trace->bytes <= kLargeTraceBytes) return;
  Say("the trace has %llu MB, which may be more than a browser takes: 'trace_processor --httpd' "
      "with the file gives it to Perfetto",
      static_cast<unsigned long long>(result.trace->bytes / 1'000'000));
}

absl::Status RunView(const ViewArguments& arguments) {
  absl::StatusOr<ViewedResult> result = OpenViewedResult(arguments.result);
  if (!result.ok()) return result.status();
  const absl::StatusOr<ServedFiles> files = OpenFiles(arguments, &*result);
  if (!files.ok()) return files.status();
  const absl::StatusOr<std::string> token = NewToken();
  if (!token.ok()) return token.status();

  const bool is_root = geteuid() == 0;
  const std::optional<CallingUser> caller = is_root ? CallerOfSudo() : std::nullopt;
  const std::optional<CallingUser> user =
      is_root ? std::optional(ServingUser(caller, *result)) : std::nullopt;
  // The browser is never root's, nor that of a user who only owns the result.
  const bool is_wanted = !arguments.no_browser && (!is_root || caller.has_value()) && !IsInSsh();
  std::optional<BrowserOpener> browser = is_wanted ? BrowserOpener::Start(caller) : std::nullopt;
  if (absl::Status status = GiveUpAllRights(user); !status.ok()) return status;
  absl::StatusOr<HttpServer> server = HttpServer::Listen(arguments.port);
  if (!server.ok()) return server.status();
  StopOnSignals();
  LimitReach({});
  LimitSystemCalls(SystemCalls::kServing);

  const uint16_t port = server->port();
  const std::string address = "http://127.0.0.1:" + std::to_string(port) + "/" + *token + "/";
  Say("serving %s at %s", arguments.result.c_str(), address.c_str());
  SayLargeTrace(*result);
  SayHowToOpen(port, browser.has_value());
  if (browser.has_value()) browser->Open(address);
  return server->Serve(*files, *token, StopAsked());
}

}  // namespace

void AddViewCommand(CLI::App& app, Action* action) {
  auto arguments = std::make_shared<ViewArguments>();
  CLI::App* command = app.add_subcommand(
      "view",
      "Show a recording in a browser: its report page, with buttons that open its timeline in "
      "Perfetto and its stacks in speedscope. It is served on this machine alone, at an address "
      "that nobody can guess, until ^C.\n"
      "Example: proftrace view result");
  command
      ->add_option("RESULT", arguments->result,
                   "a result directory, a .ptrec file, an archive of a result (.tar), or a trace, "
                   "of merge, say (.json, .json.gz, .pftrace)")
      ->required();
  command->add_option("--port", arguments->port, "the port of 127.0.0.1; by default any free one")
      ->type_name("PORT")
      ->check(CLI::Range(1, 65535));
  command->add_flag("--no-browser", arguments->no_browser,
                    "prints the address, and starts no browser");
  command
      ->add_option("--perfetto-ui", arguments->perfetto_ui,
                   "the page that the timeline is opened in: an address, or the unpacked folder of "
                   "Perfetto's UI, which needs no network")
      ->type_name("DIR|URL")
      ->capture_default_str();
  command
      ->add_option("--speedscope-ui", arguments->speedscope_ui,
                   "the page that the stacks are opened in, in the same way")
      ->type_name("DIR|URL")
      ->capture_default_str();
  command->add_flag("--salvage", arguments->salvage,
                    "shows the undamaged part of a damaged capture");
  command->callback([arguments, action] { *action = [arguments] { return RunView(*arguments); }; });
}

}  // namespace proftrace
