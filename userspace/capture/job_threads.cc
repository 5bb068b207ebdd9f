#include "userspace/capture/job_threads.h"

#include <sys/stat.h>

#include <cstdlib>
#include <string>

#include "symbols/process_maps.h"
#include "userspace/base/clock.h"

namespace proftrace {
namespace {

// A number that was not found may be asked for again and again.
constexpr int64_t kThreadsIntervalNs = 20'000'000;
// Above all that Linux gives (PID_MAX_LIMIT).
constexpr uint32_t kEnded = 1u << 30;

uint64_t PidNamespace(const std::string& process) {
  struct stat entry {};
  return stat(("/proc/" + process + "/ns/pid").c_str(), &entry) == 0 ? entry.st_ino : 0;
}

}  // namespace

JobThreads::JobThreads(Pid pid)
    : pid_(pid),
      is_same_namespace_(PidNamespace(std::to_string(Raw(pid))) == PidNamespace("self")) {}

uint32_t JobThreads::NumberOf(uint32_t own_number) {
  if (is_same_namespace_) return own_number;
  const auto [it, is_new] = numbers_.try_emplace(own_number, 0);
  if (it->second != 0) return it->second;
  // One that is asked for the first time may be about to end.
  const int64_t now_ns = MonotonicNs();
  if (is_new || now_ns - last_look_ns_ >= kThreadsIntervalNs) {
    last_look_ns_ = now_ns;
    Look();
  }
  const uint32_t number = numbers_[own_number];
  return number != 0 ? number : kEnded | own_number;
}

void JobThreads::Look() {
  const std::string folder = "/proc/" + std::to_string(Raw(pid_)) + "/task";
  for (const uint32_t tid : ReadNumberedEntries(folder)) {
    const std::string status = ReadSmallFile(folder + "/" + std::to_string(tid) + "/status", 4096);
    const std::string_view numbers = StatusValue(status, "NSpid");
    const size_t space = numbers.find_last_of("\t ");
    const auto own = static_cast<uint32_t>(
        std::strtoul(std::string(numbers.substr(space + 1)).c_str(), nullptr, 10));
    if (own != 0) numbers_[own] = tid;
  }
}

}  // namespace proftrace
