#include "userspace/capture/kernel/load_messages.h"

#include <bpf/libbpf.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>

#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

LoadMessages* g_messages = nullptr;

int Keep(libbpf_print_level level, const char* format, va_list arguments) {
  if (level != LIBBPF_WARN || g_messages == nullptr) return 0;
  va_list again;
  va_copy(again, arguments);
  const int size = vsnprintf(nullptr, 0, format, again);
  va_end(again);
  if (size <= 0) return 0;
  std::string text(static_cast<size_t>(size), '\0');
  vsnprintf(text.data(), text.size() + 1, format, arguments);
  g_messages->Add(text);
  return 0;
}

// Returns a note about a limit of this process's memory, because some messages do not tell that
// such a limit was the reason. Empty: there is no limit.
std::string LimitText() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "";
  return "; this process may have " + std::to_string(limit.rlim_cur / 1'000'000) +
         " MB of memory (ulimit -v)";
}

}  // namespace

std::string VerifierReason(std::string_view text) {
  constexpr std::string_view kBegin = "-- BEGIN PROG LOAD LOG --\n";
  constexpr std::string_view kEnd = "-- END PROG LOAD LOG --";
  const size_t begin = text.find(kBegin);
  if (begin == std::string_view::npos) return "";
  text = text.substr(begin + kBegin.size());
  text = text.substr(0, text.find(kEnd));
  std::string_view reason;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? "" : text.substr(end + 1);
    const bool counts = line.starts_with("processed ") || line.starts_with("verification time ") ||
                        line.starts_with("stack depth ");
    if (!line.empty() && !counts) reason = line;
  }
  return std::string(reason);
}

LoadMessages::LoadMessages() {
  g_messages = this;
  libbpf_set_print(Keep);
}

LoadMessages::~LoadMessages() { g_messages = nullptr; }

void LoadMessages::Clear() {
  first_.clear();
  reason_.clear();
}

void LoadMessages::Add(std::string_view text) {
  if (reason_.empty()) reason_ = VerifierReason(text);
  if (first_.empty()) first_ = text.substr(0, text.find_last_not_of('\n') + 1);
}

std::string LoadMessages::Text() const {
  if (first_.empty()) return LimitText();
  return " (" + first_ + (reason_.empty() ? "" : ": " + reason_) + ")" + LimitText();
}

bool LoadMessages::IsNotPermitted(int error) const {
  return error == EPERM || (error == EACCES && reason_.empty());
}

absl::Status LoadMessages::Refusal(const std::string& what, int error) const {
  const ExitCode code = IsNotPermitted(error) ? ExitCode::kNotPermitted : ExitCode::kHostUnfit;
  return Fail(code, what + ": the kernel does not take the programs: " + ErrnoText(error) + Text());
}

}  // namespace proftrace
