#include "tests/support/python_process.h"

#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>

namespace proftrace {
namespace {

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::vector<std::string> Candidates() {
  std::vector<std::string> found = Split(Environment("PROFTRACE_PYTHONS"), ':');
  for (const std::string& folder : Split(Environment("PATH"), ':')) {
    found.push_back(folder + "/python3");
    for (int minor = 9; minor <= 15; ++minor) {
      found.push_back(folder + "/python3." + std::to_string(minor));
      if (minor >= 14) found.push_back(folder + "/python3." + std::to_string(minor) + "t");
    }
  }
  const std::string root = Environment("PYENV_ROOT");
  const std::string pattern =
      (root.empty() ? Environment("HOME") + "/.pyenv" : root) + "/versions/3.*/bin/python3";
  glob_t matches{};
  if (glob(pattern.c_str(), 0, nullptr, &matches) == 0) {
    found.insert(found.end(), matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
  }
  globfree(&matches);
  return found;
}

}  // namespace

std::vector<PythonInterpreter> FindPythons() {
  constexpr char kScript[] =
      "import os, sys\n"
      "print(sys.version_info[1], '%d.%d.%d' % sys.version_info[:3] + sys.abiflags.strip('d'),\n"
      "      sys.implementation.name,\n"
      "      os.path.realpath(getattr(sys, '_base_executable', sys.executable)))\n"
      "print('end', flush=True)\n";
  std::vector<PythonInterpreter> pythons;
  std::set<std::string> seen;
  for (const std::string& command : Candidates()) {
    if (!std::filesystem::exists(command)) continue;
    PythonProcess process(command, kScript, /*has_errors=*/false);
    const std::vector<std::string> lines = process.ReadLines("end");
    if (lines.empty()) continue;
    const std::vector<std::string> words = Split(lines[0], ' ');
    if (words.size() < 4 || words[2] != "cpython") continue;
    const int minor = std::atoi(words[0].c_str());
    if (minor < 9 || minor > 15 || !seen.insert(words[1] + " " + words[3]).second) continue;
    pythons.push_back({command, words[1], minor});
    std::printf("Python %s: %s\n", words[1].c_str(), command.c_str());
  }
  return pythons;
}

PythonProcess::PythonProcess(const std::string& command, const std::string& script,
                             bool has_errors) {
  int to_child[2];
  int from_child[2];
  if (pipe2(to_child, O_CLOEXEC) != 0 || pipe2(from_child, O_CLOEXEC) != 0) std::abort();
  const char* const argv[] = {command.c_str(), "-c", script.c_str(), nullptr};
  pid_ = fork();
  if (pid_ == 0) {
    dup2(to_child[0], STDIN_FILENO);
    dup2(from_child[1], STDOUT_FILENO);
    if (!has_errors) dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
    execv(command.c_str(), const_cast<char* const*>(argv));
    _exit(127);
  }
  close(to_child[0]);
  close(from_child[1]);
  input_ = to_child[1];
  output_ = fdopen(from_child[0], "r");
}

PythonProcess::~PythonProcess() {
  close(input_);
  std::fclose(output_);
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void PythonProcess::WriteLine(const std::string& line) {
  const std::string text = line + "\n";
  if (write(input_, text.data(), text.size()) < 0) std::perror("write to the interpreter");
}

std::optional<std::string> PythonProcess::ReadLine() {
  std::string line;
  for (int c = std::fgetc(output_); c != EOF; c = std::fgetc(output_)) {
    if (c == '\n') return line;
    line.push_back(static_cast<char>(c));
  }
  return std::nullopt;
}

std::vector<std::string> PythonProcess::ReadLines(const std::string& last) {
  std::vector<std::string> lines;
  for (auto line = ReadLine(); line && *line != last; line = ReadLine()) {
    lines.push_back(*std::move(line));
  }
  return lines;
}

}  // namespace proftrace
