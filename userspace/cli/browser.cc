#include "userspace/cli/browser.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <string_view>
#include <utility>

#include "userspace/base/guarded_folder.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

// Programs that open the user's default browser on any desktop.
constexpr std::array<const char*, 3> kOpeners = {"xdg-open", "sensible-browser", "x-www-browser"};
constexpr std::array<const char*, 2> kScreens = {"WAYLAND_DISPLAY", "DISPLAY"};
constexpr std::array<int, 4> kSignalsToIgnore = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};

bool HasScreen() {
  return std::any_of(kScreens.begin(), kScreens.end(), [](const char* name) {
    const char* value = getenv(name);
    return value != nullptr && *value != '\0';
  });
}

// Returns the path of a program that opens browsers; empty where there is none.
std::string FindOpener() {
  const char* path = getenv("PATH");
  for (const char* opener : kOpeners) {
    for (const std::string_view folder :
         SplitText(path == nullptr ? "/usr/bin:/bin" : path, ":", /*skip_empty=*/true)) {
      const std::string program = std::string(folder) + "/" + opener;
      if (folder.starts_with('/') && access(program.c_str(), X_OK) == 0) return program;
    }
  }
  return "";
}

// Reads one line, and returns it without its end; empty where the writers have closed the pipe
// before its end.
std::string ReadLine(int fd) {
  std::string line;
  for (char c = 0; c != '\n';) {
    const ssize_t got = read(fd, &c, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return "";
    if (c != '\n') line.push_back(c);
  }
  return line;
}

void WaitForEnd(int fd) {
  char c = 0;
  for (ssize_t got = 1; got > 0 || (got < 0 && errno == EINTR);) got = read(fd, &c, 1);
}

// A file that only its owner can read, and that redirects a browser.
struct Redirect {
  GuardedFolder folder;
  std::string name;

  std::string path() const { return folder.path() + "/" + name; }
};

std::string RedirectPage(const std::string& address) {
  return "<!DOCTYPE html>\n<meta charset=\"utf-8\">\n<meta name=\"referrer\" "
         "content=\"no-referrer\">\n<meta http-equiv=\"refresh\" content=\"0; url=" +
         address + "\">\n<title>proftrace</title>\n<p><a href=\"" + address +
         "\">The report</a></p>\n";
}

// Makes the file that redirects to the address; nullopt where it cannot be made.
std::optional<Redirect> MakeRedirect(const std::string& address) {
  umask(S_IRWXG | S_IRWXO);
  const std::array<const char*, 3> places = {getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp"};
  for (const char* place : places) {
    uint64_t random = 0;
    if (place == nullptr || *place != '/') continue;
    if (getrandom(&random, sizeof(random), 0) != sizeof(random)) return std::nullopt;
    absl::StatusOr<GuardedFolder> folder = GuardedFolder::Open(place);
    if (!folder.ok()) continue;
    Redirect redirect{*std::move(folder), "proftrace-view-" + std::to_string(random) + ".html"};
    const UniqueFd fd = redirect.folder.Create(redirect.name, O_WRONLY);
    if (!fd.valid()) continue;
    if (WriteFully(fd.get(), RedirectPage(address))) return redirect;
    redirect.folder.Remove(redirect.name);
  }
  return std::nullopt;
}

// Runs the program in a session of its own, because ^C in the terminal is not meant for the
// browser.
void RunOpener(const std::string& opener, const std::string& file) {
  if (fork() != 0) return;
  setsid();
  for (const int number : kSignalsToIgnore) signal(number, SIG_DFL);
  const int null = open("/dev/null", O_RDWR);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, fd);
  execl(opener.c_str(), opener.c_str(), file.c_str(), nullptr);
  _exit(EXIT_FAILURE);
}

[[noreturn]] void RunChild(int pipe, const std::string& opener,
                           const std::optional<CallingUser>& user) {
  // These signals are ignored: the helper ends when the pipe is closed.
  for (const int number : kSignalsToIgnore) signal(number, SIG_IGN);
  signal(SIGCHLD, SIG_IGN);
  if (user.has_value()) {
    TakeEnvironmentOf(*user);
    if (!BecomeUser(*user)) _exit(EXIT_FAILURE);
  }
  if (geteuid() == 0) _exit(EXIT_FAILURE);
  const std::string address = ReadLine(pipe);
  if (address.empty()) _exit(EXIT_SUCCESS);
  const std::optional<Redirect> redirect = MakeRedirect(address);
  if (!redirect.has_value()) _exit(EXIT_FAILURE);
  RunOpener(opener, redirect->path());
  WaitForEnd(pipe);
  redirect->folder.Remove(redirect->name);
  _exit(EXIT_SUCCESS);
}

}  // namespace

BrowserOpener::BrowserOpener(UniqueFd pipe, pid_t child) : pipe_(std::move(pipe)), child_(child) {}

BrowserOpener::~BrowserOpener() {
  if (!pipe_.valid()) return;
  pipe_ = UniqueFd();
  while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::optional<BrowserOpener> BrowserOpener::Start(const std::optional<CallingUser>& user) {
  if (!HasScreen()) return std::nullopt;
  const std::string opener = FindOpener();
  int ends[2];
  if (opener.empty() || pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  UniqueFd reads(ends[0]);
  UniqueFd writes(ends[1]);
  const pid_t child = fork();
  if (child < 0) return std::nullopt;
  if (child == 0) {
    writes = UniqueFd();
    RunChild(reads.get(), opener, user);
  }
  return BrowserOpener(std::move(writes), child);
}

void BrowserOpener::Open(const std::string& address) {
  (void)WriteFully(pipe_.get(), address + "\n");
}

}  // namespace proftrace
