// The terminal of a program that shows a screen: keys come one by one and are not echoed. It is
// given back as it was at the end, whatever ends the program, and while ^Z has it stopped. What
// draws is another process, which is stopped and continued together with this one. There is one at
// a time; signals reach it by their own.
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

  // Whether standard output is a terminal that knows how to go to a place: TERM is neither missing
  // nor dumb.
  static bool CanShow();
  // Returns how the terminal behaves now; false: standard input is none.
  static bool ReadModes(termios* modes);
  // Makes it behave so. By tcsetattr(3) alone, which a signal's handler may call.
  static void SetModes(const termios& modes);

  // Begins the screen. `viewer`: the process that draws.
  void Enter(pid_t viewer);
  // Ends it; again: nothing happens.
  void Leave();

 private:
  bool is_entered_ = false;
};

}  // namespace proftrace
