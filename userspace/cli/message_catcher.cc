#include "userspace/cli/message_catcher.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

namespace proftrace {
namespace {

constexpr size_t kMostLines = 100;
constexpr size_t kLongestLine = 4096;

}  // namespace

bool MessageCatcher::Start() {
  int ends[2];
  // The pipe does not block, because this process itself must not wait for room that only its own
  // reading makes.
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return false;
  UniqueFd reads(ends[0]);
  const UniqueFd writes(ends[1]);
  UniqueFd before(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  is_terminal_ = isatty(STDERR_FILENO) != 0;
  std::fflush(stderr);
  if (!before.valid() || dup2(writes.get(), STDERR_FILENO) < 0) return false;
  before_ = std::move(before);
  reads_ = std::move(reads);
  return true;
}

std::vector<std::string> MessageCatcher::Take() {
  char bytes[4096];
  std::vector<std::string> lines;
  while (reads_.valid()) {
    const ssize_t got = read(reads_.get(), bytes, sizeof(bytes));
    if (got <= 0) break;
    for (const char c : std::string_view(bytes, static_cast<size_t>(got))) {
      if (c != '\n' && part_.size() < kLongestLine) part_.push_back(c);
      if (c != '\n') continue;
      lines.push_back(std::move(part_));
      part_.clear();
    }
  }
  for (const std::string& line : lines) {
    if (!is_terminal_) (void)WriteFully(before_.get(), line + "\n");
    if (is_terminal_) last_.push_back(line);
  }
  while (last_.size() > kMostLines) last_.pop_front();
  return lines;
}

void MessageCatcher::Stop() {
  if (!before_.valid()) return;
  std::fflush(stderr);
  dup2(before_.get(), STDERR_FILENO);
  (void)Take();
  for (const std::string& line : last_) (void)WriteFully(before_.get(), line + "\n");
  if (!part_.empty()) (void)WriteFully(before_.get(), part_ + "\n");
  before_ = UniqueFd();
  reads_ = UniqueFd();
}

}  // namespace proftrace
