// Real Python interpreters for tests: which there are, and one that runs a script.
#pragma once

#include <sys/types.h>

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace proftrace {

struct PythonInterpreter {
  std::string command;  // runs it; it may be a script that does (PROFTRACE_PYTHONS)
  std::string version;  // "3.11.7"
  int minor = 0;        // 11
};

// Finds the interpreters 3.9 to 3.15 in PATH, in pyenv's folder and in PROFTRACE_PYTHONS (paths
// with ":" between them), each once. Prints what was found.
std::vector<PythonInterpreter> FindPythons();

// A script that runs with pipes for its standard input and output. It ends with this object.
class PythonProcess {
 public:
  // `has_errors`: what it says of errors is shown.
  PythonProcess(const std::string& command, const std::string& script, bool has_errors = true);
  ~PythonProcess();
  PythonProcess(const PythonProcess&) = delete;
  PythonProcess& operator=(const PythonProcess&) = delete;

  pid_t pid() const { return pid_; }
  void WriteLine(const std::string& line);
  // Returns the next line that it prints, without its end; nullopt when it prints no more.
  std::optional<std::string> ReadLine();
  // Everything up to a line `last`, or to the end.
  std::vector<std::string> ReadLines(const std::string& last);

 private:
  pid_t pid_ = 0;
  int input_ = -1;
  FILE* output_ = nullptr;
};

}  // namespace proftrace
