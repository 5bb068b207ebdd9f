#include "userspace/capture/targets/process_watch.h"

#include <elf.h>
#include <sys/ioctl.h>
#include <sys/poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "bpf/abi/records.h"
#include "symbols/process/process_maps.h"
#include "symbols/process/process_memory.h"
#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/text.h"
#include "userspace/capture/targets/target_info.h"

namespace proftrace {
namespace {

constexpr int64_t kLookIntervalNs = 50'000'000;
// Looking takes at most one part in this many of a processor, however many threads there are.
constexpr int64_t kLookShare = 20;
// How long a new thread's name is read at each look, and the time between two readings afterwards.
constexpr int64_t kNamingNs = 1'000'000'000;
constexpr size_t kMostAuxvBytes = 4096;
constexpr size_t kMostChildrenBytes = size_t{1} << 20;
constexpr size_t kMostStatBytes = 4096;
constexpr size_t kRandomBytes = 16;  // at AT_RANDOM (getauxval(3))

// From linux/pidfd.h of 6.15: the distribution's header may be older than the kernel.
struct PidfdInfo {
  uint64_t mask;
  uint64_t cgroup;
  uint32_t ids[11];
  int32_t exit_code;
};
static_assert(sizeof(PidfdInfo) == 64);
constexpr unsigned long kPidfdGetInfo = _IOWR(0xff, 11, PidfdInfo);
constexpr uint64_t kPidfdInfoExit = 1 << 3;

std::string TaskFile(Pid pid, uint32_t tid, const char* name) {
  return "/proc/" + std::to_string(Raw(pid)) + "/task/" + std::to_string(tid) + "/" + name;
}

std::string ReadThreadName(Pid pid, uint32_t tid) {
  std::string name = ReadSmallFile(TaskFile(pid, tid, "comm"), 64);
  while (!name.empty() && name.back() == '\n') name.pop_back();
  return name;
}

// Returns the words of /proc/PID/stat, from the third one (the state) on.
std::vector<std::string> StatWords(Pid pid) {
  const std::string stat =
      ReadSmallFile("/proc/" + std::to_string(Raw(pid)) + "/stat", kMostStatBytes);
  std::vector<std::string> words;
  const size_t close = stat.rfind(')');
  if (close == std::string::npos) return words;
  for (const std::string_view word :
       SplitText(std::string_view(stat).substr(close + 1), " \n", /*skip_empty=*/true)) {
    words.emplace_back(word);
  }
  return words;
}

// Returns when a process began (CLOCK_MONOTONIC), at most a clock tick (10 ms) too early; 0: not
// known.
int64_t StartOf(Pid pid) {
  constexpr size_t kStartTime = 19;  // field 22
  const std::vector<std::string> words = StatWords(pid);
  if (words.size() <= kStartTime) return 0;
  const auto ticks = ParseNumber<uint64_t>(words[kStartTime]);
  if (!ticks) return 0;
  // The ticks are of CLOCK_BOOTTIME, which goes on while the machine sleeps.
  const int64_t slept_ns = ClockNs(CLOCK_BOOTTIME) - MonotonicNs();
  const int64_t tick_ns = 1'000'000'000 / sysconf(_SC_CLK_TCK);
  return static_cast<int64_t>(*ticks) * tick_ns - slept_ns;
}

abi::pt_record Head(abi::pt_kind kind, Pid pid, uint32_t tid, int64_t time_ns, size_t bytes) {
  abi::pt_record head{};
  head.time_ns = static_cast<uint64_t>(time_ns);
  head.pid = Raw(pid);
  head.tid = tid;
  head.kind = static_cast<uint8_t>(kind);
  head.words = static_cast<uint8_t>(bytes / 8);
  return head;
}

}  // namespace

std::string ReadImageMark(Pid pid) {
  std::string mark = ReadSmallFile("/proc/" + std::to_string(Raw(pid)) + "/auxv", kMostAuxvBytes);
  // These random bytes differ after each exec, even where addresses are the same (personality(2)).
  for (size_t at = 0; at + sizeof(Elf64_auxv_t) <= mark.size(); at += sizeof(Elf64_auxv_t)) {
    Elf64_auxv_t entry;
    std::memcpy(&entry, mark.data() + at, sizeof(entry));
    if (entry.a_type != AT_RANDOM) continue;
    std::array<char, kRandomBytes> random{};
    if (!ProcessMemory(pid).Read(entry.a_un.a_val, random.data(), random.size())) return "";
    mark.append(random.data(), random.size());
    break;
  }
  return mark;
}

uint32_t ReadExitCode(Pid pid, const UniqueFd& fd) {
  PidfdInfo info{};
  info.mask = kPidfdInfoExit;
  if (ioctl(fd.get(), kPidfdGetInfo, &info) == 0 && (info.mask & kPidfdInfoExit) != 0) {
    return static_cast<uint32_t>(info.exit_code);
  }
  // Before Linux 6.15 the exit code can be read only until the parent has waited for the process.
  constexpr size_t kExitCode = 49;  // field 52
  const std::vector<std::string> words = StatWords(pid);
  if (words.size() <= kExitCode || words[0] != "Z") return 0;
  return ParseNumber<uint32_t>(words[kExitCode]).value_or(0);
}

ProcessWatch::ProcessWatch(bool follow_children)
    : follow_children_(follow_children),
      has_children_files_(access("/proc/thread-self/children", R_OK) == 0) {}

ProcessWatch::~ProcessWatch() = default;

absl::StatusOr<UniqueFd> ProcessWatch::Open(Pid pid) {
  UniqueFd fd(static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(Raw(pid)), 0)));
  if (!fd.valid() && (errno == EMFILE || errno == ENFILE)) {
    return Fail(ExitCode::kHostUnfit, "too many traced processes: " + ErrnoText(errno));
  }
  return fd;
}

absl::Status ProcessWatch::Add(Pid pid) {
  absl::StatusOr<UniqueFd> fd = Open(pid);
  if (!fd.ok()) return fd.status();
  std::string image = ReadImageMark(pid);
  const std::lock_guard lock(mutex_);
  added_.try_emplace(Raw(pid), Added{*std::move(fd), std::move(image), MonotonicNs()});
  return absl::OkStatus();
}

void ProcessWatch::TakeAdded() {
  std::map<uint32_t, Added> added;
  {
    const std::lock_guard lock(mutex_);
    added.swap(added_);
  }
  for (auto& [pid, process] : added) {
    if (processes_.contains(pid)) continue;
    Watched& watched = processes_[pid];
    watched.fd = std::move(process.fd);
    watched.image = std::move(process.image);
    watched.looked_ns = process.time_ns;
    next_look_ns_ = 0;
  }
}

int64_t ProcessWatch::longest_interval_ns() const {
  const std::lock_guard lock(mutex_);
  return longest_interval_ns_;
}

template <typename Record>
void ProcessWatch::Tell(const Record& record) {
  (*on_record_)(std::as_bytes(std::span(&record, 1)));
  ++told_;
}

void ProcessWatch::TellThreadEnd(Pid pid, uint32_t tid, const std::string& name, bool group_dead,
                                 uint32_t exit_code) {
  abi::pt_exit_record record{};
  record.head = Head(abi::PT_THREAD_EXIT, pid, tid, MonotonicNs(), sizeof(record));
  record.group_dead = group_dead ? 1 : 0;
  record.exit_code = exit_code;
  name.copy(record.comm, sizeof(record.comm) - 1);
  Tell(record);
}

void ProcessWatch::Wait(int timeout_ms) const {
  std::vector<pollfd> fds;
  for (const auto& [pid, watched] : processes_) fds.push_back({watched.fd.get(), POLLIN, 0});
  (void)poll(fds.data(), fds.size(), timeout_ms);
}

void ProcessWatch::TellEnds() {
  for (auto it = processes_.begin(); it != processes_.end();) {
    const Pid pid{it->first};
    const Watched& watched = it->second;
    pollfd state{watched.fd.get(), POLLIN, 0};
    if (watched.fd.valid() && poll(&state, 1, 0) == 0) {
      ++it;
      continue;
    }
    std::string name;
    for (const auto& [tid, thread] : watched.threads) {
      if (tid == Raw(pid)) name = thread.name;
      if (tid != Raw(pid)) TellThreadEnd(pid, tid, thread.name, false, 0);
    }
    TellThreadEnd(pid, Raw(pid), name, true, ReadExitCode(pid, watched.fd));
    it = processes_.erase(it);
  }
}

void ProcessWatch::LookAtThreads(Pid pid, Watched* watched, const std::vector<uint32_t>& tids) {
  const int64_t now_ns = MonotonicNs();
  for (const uint32_t tid : tids) {
    Thread& thread = watched->threads[tid];
    if (thread.seen_ns == 0) thread.seen_ns = now_ns;
    const bool is_new = now_ns - thread.seen_ns < kNamingNs;
    if (!is_new && now_ns - thread.named_ns < kNamingNs) continue;
    thread.named_ns = now_ns;
    if (std::string name = ReadThreadName(pid, tid); !name.empty()) thread.name = std::move(name);
  }
  for (auto it = watched->threads.begin(); it != watched->threads.end();) {
    if (std::find(tids.begin(), tids.end(), it->first) != tids.end()) {
      ++it;
      continue;
    }
    TellThreadEnd(pid, it->first, it->second.name, false, 0);
    it = watched->threads.erase(it);
  }
}

std::map<uint32_t, uint32_t> ProcessWatch::ChildrenOf(Pid pid,
                                                      const std::vector<uint32_t>& tids) const {
  std::map<uint32_t, uint32_t> children;
  if (!has_children_files_) {
    for (const auto& [child, parent] : parents_) {
      if (parent == Raw(pid)) children.emplace(child, Raw(pid));
    }
    return children;
  }
  for (const uint32_t tid : tids) {
    const std::string text = ReadSmallFile(TaskFile(pid, tid, "children"), kMostChildrenBytes);
    for (const std::string_view word : SplitText(text, " \n", /*skip_empty=*/true)) {
      if (const auto child = ParseNumber<uint32_t>(word)) children.emplace(*child, tid);
    }
  }
  return children;
}

void ProcessWatch::LookAtChildren(Pid pid, Watched* watched, const std::vector<uint32_t>& tids,
                                  std::vector<Pid>* forked) {
  const std::map<uint32_t, uint32_t> children = ChildrenOf(pid, tids);
  std::set<uint32_t> known;
  for (const auto& [child, parent_tid] : children) {
    known.insert(child);
    if (watched->children.contains(child) || processes_.contains(child)) continue;
    if (child == static_cast<uint32_t>(getpid())) continue;
    absl::StatusOr<UniqueFd> fd = Open(Pid{child});
    std::string image = ReadImageMark(Pid{child});
    // The child has ended, or is about to run another program. The next look reports the child.
    if (!fd.ok() || !fd->valid() || image.empty()) {
      known.erase(child);
      continue;
    }
    abi::pt_fork_record record{};
    // An orphan that a subreaper gets may be older than the look before, so its time is limited to
    // that look.
    const int64_t time_ns = std::max(StartOf(Pid{child}), watched->looked_ns);
    record.head = Head(abi::PT_FORK, pid, parent_tid, time_ns, sizeof(record));
    record.child_pid = record.child_tid = child;
    record.head.site = SharesMemory(pid, Pid{child}) ? 1 : 0;
    Tell(record);
    const bool has_execed = image != watched->image;
    if (has_execed) Tell(Head(abi::PT_EXEC, Pid{child}, child, MonotonicNs(), sizeof(record.head)));
    Watched& entry = processes_[child];
    entry.fd = *std::move(fd);
    entry.image = std::move(image);
    entry.looked_ns = time_ns;
    forked->push_back(Pid{child});
  }
  watched->children = std::move(known);
}

void ProcessWatch::Look(Pid pid, Watched* watched, std::vector<Pid>* forked) {
  const int64_t begin_ns = MonotonicNs();
  std::vector<uint32_t> tids = ReadNumberedEntries("/proc/" + std::to_string(Raw(pid)) + "/task");
  if (tids.empty()) return;
  // Children are looked at before the image is read, because those that were forked before an exec
  // have the old image.
  if (follow_children_) LookAtChildren(pid, watched, tids, forked);
  std::string image = ReadImageMark(pid);
  LookAtThreads(pid, watched, tids);
  if (image != watched->image && !image.empty()) {
    if (!watched->image.empty()) {
      Tell(Head(abi::PT_EXEC, pid, Raw(pid), MonotonicNs(), sizeof(abi::pt_record)));
    }
    watched->image = std::move(image);
  }
  watched->looked_ns = begin_ns;
}

void ProcessWatch::LookAtAll() {
  const int64_t begin_ns = MonotonicNs();
  if (!has_children_files_ && follow_children_) {
    parents_.clear();
    for (const uint32_t pid : ReadNumberedEntries("/proc")) {
      parents_[pid] = Raw(ReadParent(Pid{pid}));
    }
  }
  std::vector<Pid> pids;
  for (const auto& [pid, watched] : processes_) pids.push_back(Pid{pid});
  // New children are appended, so `pids` grows in this loop.
  for (size_t i = 0; i < pids.size(); ++i) Look(pids[i], &processes_.at(Raw(pids[i])), &pids);
  const int64_t end_ns = MonotonicNs();
  next_look_ns_ = end_ns + std::max(kLookIntervalNs, kLookShare * (end_ns - begin_ns));
  const std::lock_guard lock(mutex_);
  if (last_look_ns_ != 0) {
    longest_interval_ns_ = std::max(longest_interval_ns_, end_ns - last_look_ns_);
  }
  last_look_ns_ = begin_ns;
}

uint64_t ProcessWatch::WaitAndTake(int timeout_ms, const OnRecord& on_record) {
  on_record_ = &on_record;
  told_ = 0;
  TakeAdded();
  Wait(timeout_ms);
  TakeAdded();
  if (MonotonicNs() >= next_look_ns_ && !processes_.empty()) LookAtAll();
  TellEnds();
  on_record_ = nullptr;
  return told_;
}

}  // namespace proftrace
