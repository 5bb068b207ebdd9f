#include "userspace/cli/result_name.h"

#include <sys/utsname.h>

#include <cctype>
#include <cstdlib>
#include <ctime>

#include "userspace/base/exit_status.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

std::optional<int64_t> NumberInEnvironment(const char* name) {
  const char* const text = getenv(name);
  return text == nullptr ? std::nullopt : ParseNumber<int64_t>(text);
}

// Returns a host's or program's name with each character replaced that could lead elsewhere in a
// path.
std::string PlainName(const std::string& name) {
  std::string plain;
  for (const char c : name) {
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
        name += PlainName(facts.host);
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

std::string DefaultResultName(const std::string& comm, const ResultNameFacts& facts) {
  std::string name = "proftrace-" + PlainName(comm) + "-" + PlainName(facts.host);
  if (facts.rank) name += "-rank" + std::to_string(*facts.rank);
  if (facts.attempt > 0) name += "-attempt" + std::to_string(facts.attempt);
  const time_t now = time(nullptr);
  tm utc{};
  gmtime_r(&now, &utc);
  char stamp[32];
  strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", &utc);
  return name + "-" + std::to_string(Raw(facts.pid)) + "-" + stamp;
}

ResultNameFacts OwnNameFacts(bool of_command) {
  ResultNameFacts facts;
  utsname names{};
  uname(&names);
  facts.host = names.nodename;
  if (!of_command) return facts;
  facts.rank = NumberInEnvironment("RANK");
  if (!facts.rank) facts.rank = NumberInEnvironment("SLURM_PROCID");
  auto attempt = NumberInEnvironment("TORCHELASTIC_RESTART_COUNT");
  if (!attempt) attempt = NumberInEnvironment("SLURM_RESTART_COUNT");
  facts.attempt = static_cast<uint32_t>(attempt.value_or(0));
  return facts;
}

void TakeJob(const ProcessInfo& info, bool is_alone, ResultNameFacts* facts) {
  if (is_alone && info.rank) facts->rank = *info.rank;
  const JobIdentity& job = info.job;
  facts->attempt = job.elastic_restart_count.value_or(job.slurm_restart_count.value_or(0));
}

}  // namespace proftrace
