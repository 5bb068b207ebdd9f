#include "userspace/cli/result_name.h"

#include <cctype>

#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

// A host's name is nobody's choice here: what would lead elsewhere in a path is replaced.
std::string PlainHost(const std::string& host) {
  std::string plain;
  for (const char c : host) {
    const bool stays = std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_';
    plain.push_back(stays ? c : '-');
  }
  return plain;
}

}  // namespace

absl::StatusOr<std::string> ResultNameOf(const std::string& pattern, const ResultNameFacts& facts) {
  std::string name;
  for (size_t at = 0; at < pattern.size(); ++at) {
    if (pattern[at] != '%') {
      name.push_back(pattern[at]);
      continue;
    }
    switch (++at < pattern.size() ? pattern[at] : '\0') {
      case 'h':
        name += PlainHost(facts.host);
        break;
      case 'r':
        name += facts.rank ? std::to_string(*facts.rank) : "none";
        break;
      case 'p':
        name += std::to_string(Raw(facts.pid));
        break;
      case 'a':
        name += std::to_string(facts.attempt);
        break;
      case '%':
        name += '%';
        break;
      default:
        return Fail(ExitCode::kUsage,
                    "-o " + pattern +
                        ": after a % stands h (host), r (rank), p (PID), a (attempt), or a second "
                        "% for the character itself");
    }
  }
  return name;
}

}  // namespace proftrace
