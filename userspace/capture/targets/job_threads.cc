#include "userspace/capture/targets/job_threads.h"

#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "symbols/process/process_maps.h"
#include "userspace/base/clock.h"

namespace proftrace {
namespace {

// The largest number that Linux gives a thread (PID_MAX_LIMIT).
constexpr uint32_t kMostNumber = 1u << 22;
// The bit that is set in numbers that no thread has; the other bits are the thread's own number.
constexpr uint32_t kUnknown = 1u << 30;
// How many threads that record something a job may start in a millisecond. Jobs that start one for
// each request reach a tenth of this.
constexpr uint64_t kThreadsPerMs = 10;
constexpr uint64_t kThreadsAtFirst = 65'536;
// The time after which a number that was not found is looked for again.
constexpr int64_t kAgainNs = 20'000'000;
// Looking may take a tenth of the time, and a second in addition.
constexpr int64_t kLookShare = 10;
constexpr int64_t kLookAtFirstNs = 1'000'000'000;

uint64_t PidNamespace(const std::string& process) {
  struct stat entry {};
  return stat(("/proc/" + process + "/ns/pid").c_str(), &entry) == 0 ? entry.st_ino : 0;
}

// Returns a thread's number in its innermost PID namespace; 0: it has ended.
uint32_t OwnNumberOf(const std::string& thread) {
  const std::string status = ReadSmallFile(thread + "/status", 4096);
  std::string_view numbers = StatusValue(status, "NSpid");
  numbers.remove_prefix(numbers.find_last_of("\t ") + 1);
  uint32_t number = 0;
  std::from_chars(numbers.data(), numbers.data() + numbers.size(), number);
  return number;
}

}  // namespace

JobThreads::JobThreads(Pid pid)
    : pid_(pid),
      is_same_namespace_(PidNamespace(std::to_string(Raw(pid))) == PidNamespace("self")),
      begin_ns_(MonotonicNs()) {
  if (is_same_namespace_) return;
  std::unique_lock lock(mutex_);
  Look(&lock, /*reads_known=*/false);
}

bool JobThreads::Admit() {
  const auto passed_ms = static_cast<uint64_t>((MonotonicNs() - begin_ns_) / 1'000'000);
  if (admitted_ >= kThreadsAtFirst + passed_ms * kThreadsPerMs) return false;
  ++admitted_;
  return true;
}

uint32_t JobThreads::NumberOf(uint32_t own_number) {
  if (own_number == 0 || own_number > kMostNumber) return 0;
  const std::lock_guard lock(mutex_);
  const auto known = numbers_.find(own_number);
  if (known != numbers_.end() && known->second != 0) return known->second;
  if (known == numbers_.end()) {
    if (!Admit()) return 0;
    numbers_.emplace(own_number, is_same_namespace_ ? own_number : 0);
    missing_.insert(own_number);
    if (is_same_namespace_) return own_number;
  } else if (MonotonicNs() - last_look_ns_ >= kAgainNs) {
    missing_.insert(own_number);
  }
  return kUnknown | own_number;
}

void JobThreads::Look(std::unique_lock<std::mutex>* lock, bool reads_known) {
  const std::string folder = "/proc/" + std::to_string(Raw(pid_)) + "/task";
  absl::flat_hash_map<uint32_t, uint32_t> known;
  if (!reads_known) known = own_numbers_;
  lock->unlock();
  std::vector<std::pair<uint32_t, uint32_t>> found;
  for (const uint32_t tid : ReadNumberedEntries(folder)) {
    if (known.contains(tid)) continue;
    const uint32_t own = OwnNumberOf(folder + "/" + std::to_string(tid));
    if (own != 0) found.emplace_back(own, tid);
  }
  lock->lock();
  for (const auto& [own, tid] : found) {
    numbers_[own] = tid;
    own_numbers_[tid] = own;
    missing_.erase(own);
  }
}

void JobThreads::CheckMissing(std::unique_lock<std::mutex>* lock) {
  const absl::flat_hash_set<uint32_t> missing = std::exchange(missing_, {});
  lock->unlock();
  std::vector<uint32_t> foreign;
  const std::string folder = "/proc/" + std::to_string(Raw(pid_)) + "/task/";
  for (const uint32_t number : missing) {
    const std::string name = std::to_string(number);
    if (access((folder + name).c_str(), F_OK) == 0) continue;
    // A number whose thread has ended belongs to no process.
    if (access(("/proc/" + name).c_str(), F_OK) == 0) foreign.push_back(number);
  }
  lock->lock();
  for (const uint32_t number : foreign) numbers_[number] = kUnknown | number;
  has_foreign_ |= !foreign.empty();
}

void JobThreads::LookForMissing() {
  std::unique_lock lock(mutex_);
  const int64_t now_ns = MonotonicNs();
  if (missing_.empty() || looked_ns_ > kLookAtFirstNs + (now_ns - begin_ns_) / kLookShare) return;
  if (is_same_namespace_) {
    CheckMissing(&lock);
  } else {
    Look(&lock, /*reads_known=*/false);
    if (!missing_.empty()) Look(&lock, /*reads_known=*/true);
    missing_.clear();
  }
  last_look_ns_ = MonotonicNs();
  looked_ns_ += last_look_ns_ - now_ns;
}

bool JobThreads::needs_resolving() const {
  const std::lock_guard lock(mutex_);
  return !is_same_namespace_ || has_foreign_;
}

uint32_t JobThreads::Resolve(uint32_t number) const {
  if (!is_same_namespace_ && (number & kUnknown) == 0) return number;
  const std::lock_guard lock(mutex_);
  const auto known = numbers_.find(number & ~kUnknown);
  return known != numbers_.end() && known->second != 0 ? known->second : number;
}

}  // namespace proftrace
