// The terminal of a program that shows a screen: keys come one by one and are not echoed. The
// terminal's modes are restored at the end, whatever ends the program, and while ^Z has stopped it.
// Another process draws the screen; it is stopped and continued together with this one. There can
// be only one TerminalScreen at a time, because signal handlers reach it through global variables.
#pragma once

#include <absl/status/status.h>
#include <sys/types.h>
#include <termios.h>

namespace proftrace {

class TerminalScreen {
 public:
  TerminalScreen() = default;
  ~TerminalScreen() { Leave(); }
  TerminalScreen(const TerminalScreen&) = delete;
  TerminalScreen& operator=(const TerminalScreen&) = delete;

  // Returns whether standard output is a terminal that can move its cursor: TERM is neither missing
  // nor "dumb".
  static bool CanShow();
  // Reads the terminal's present modes. Returns false where standard input is not a terminal.
  static bool ReadModes(termios* modes);
  // Sets the terminal's modes. It calls only tcsetattr(3), which a signal handler may call.
  static void SetModes(const termios& modes);

  // Begins the screen. `viewer`: the process that draws it.
  void Enter(pid_t viewer);
  // Ends the screen. A second call does nothing.
  void Leave();

 private:
  bool is_entered_ = false;
};

}  // namespace proftrace
