#include "userspace/cli/terminal_screen.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "userspace/top/screen_difference.h"

namespace proftrace {
namespace {

std::atomic<pid_t> g_viewer{0};  // 0: there is no screen
termios g_before{};
bool g_has_modes = false;

void Write(std::string_view bytes) {
  [[maybe_unused]] const ssize_t written = write(STDOUT_FILENO, bytes.data(), bytes.size());
}

// Returns modes in which keys come at once and are not echoed, while ^C and ^Z still send signals.
termios ScreenModes() {
  termios modes = g_before;
  modes.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  modes.c_cc[VMIN] = 1;
  modes.c_cc[VTIME] = 0;
  return modes;
}

void Begin() {
  // If this process is in the background, setting the modes stops it until it is in the foreground
  // again.
  if (g_has_modes) TerminalScreen::SetModes(ScreenModes());
  Write(kEnterScreen);
}

void End() {
  Write(kLeaveScreen);
  if (g_has_modes) TerminalScreen::SetModes(g_before);
}

// Handles ^Z: stops the viewer, and restores the terminal for the shell.
void OnSuspend(int) {
  const int error = errno;
  if (const pid_t viewer = g_viewer.load(); viewer > 0) {
    kill(viewer, SIGSTOP);
    siginfo_t state{};
    // Waits until the viewer has stopped drawing. Its status is left for a later wait (WNOWAIT).
    while (waitid(P_PID, static_cast<id_t>(viewer), &state, WSTOPPED | WEXITED | WNOWAIT) < 0 &&
           errno == EINTR) {
    }
    End();
  }
  raise(SIGSTOP);
  errno = error;
}

void OnContinue(int) {
  const int error = errno;
  if (const pid_t viewer = g_viewer.load(); viewer > 0) {
    Begin();
    kill(viewer, SIGCONT);  // the viewer draws the whole screen again
  }
  errno = error;
}

void Handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}

}  // namespace

bool TerminalScreen::CanShow() {
  const char* terminal = std::getenv("TERM");
  const std::string_view name = terminal == nullptr ? "" : terminal;
  return isatty(STDOUT_FILENO) != 0 && !name.empty() && name != "dumb";
}

bool TerminalScreen::ReadModes(termios* modes) { return tcgetattr(STDIN_FILENO, modes) == 0; }

void TerminalScreen::SetModes(const termios& modes) {
  while (tcsetattr(STDIN_FILENO, TCSADRAIN, &modes) < 0 && errno == EINTR) {
  }
}

void TerminalScreen::Enter(pid_t viewer) {
  g_has_modes = ReadModes(&g_before);
  g_viewer.store(viewer);
  is_entered_ = true;
  Handle(SIGTSTP, OnSuspend);
  Handle(SIGCONT, OnContinue);
  Begin();
}

void TerminalScreen::Leave() {
  if (!is_entered_) return;
  is_entered_ = false;
  Handle(SIGTSTP, SIG_DFL);
  Handle(SIGCONT, SIG_DFL);
  g_viewer.store(0);
  End();
}

}  // namespace proftrace
