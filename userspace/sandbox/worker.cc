#include "userspace/sandbox/worker.h"

#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <optional>
#include <utility>

#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/give_way.h"
#include "userspace/sandbox/confined.h"
#include "userspace/sandbox/filter.h"
#include "userspace/sandbox/messages.h"
#include "userspace/sandbox/reach.h"
#include "userspace/sandbox/rights.h"

namespace proftrace {
namespace {

// How often the parent looks whether the worker is to be ended.
constexpr int kLookMs = 50;
// The limit of real time, as a multiple of that of processor time: the host may be busy.
constexpr int64_t kRealTimes = 10;
constexpr timeval kLongestMessage{.tv_sec = 10, .tv_usec = 0};
// The processor time of a worker that lasts as long as a recording.
constexpr int64_t kLongestLastingS = int64_t{365} * 24 * 3600;
// Far more than any worker needs: a process has some hundred files, and each costs a few questions.
constexpr int64_t kMostQuestions = 1 << 20;

thread_local int64_t worker_cpu_ns = 0;

// Closes the descriptors from `first` to `last`: one by one where there is no close_range(2)
// (before Linux 5.9).
void CloseBetween(unsigned first, unsigned last) {
  if (first > last || syscall(SYS_close_range, first, last, 0) == 0) return;
  struct rlimit limit {};
  getrlimit(RLIMIT_NOFILE, &limit);
  const auto most = static_cast<unsigned>(std::min<rlim_t>(limit.rlim_cur, 1 << 20));
  for (unsigned fd = first; fd < std::min(last, most); ++fd) close(static_cast<int>(fd));
}

void CloseAllBut(std::vector<int> kept) {
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) kept.push_back(standard);
  std::sort(kept.begin(), kept.end());
  unsigned next = 0;
  for (const int fd : kept) {
    if (fd < 0) continue;
    if (static_cast<unsigned>(fd) > next) CloseBetween(next, static_cast<unsigned>(fd) - 1);
    next = static_cast<unsigned>(fd) + 1;
  }
  CloseBetween(next, ~0u);
}

void GiveUpRights(const WorkerOrder& order) {
  NoNewRights();
  // A real-time priority of this process is given up, so that work on a target's data never delays
  // other processes.
  const sched_param normal{};
  (void)sched_setscheduler(0, SCHED_OTHER, &normal);
  // What works beside the job for a whole recording gives way to the job where CPUs are few.
  if (order.is_lasting) GiveWay();
  LimitUse(order.is_lasting ? kLongestLastingS : order.longest_s);
  LimitReach({});
  DropCapabilities({});
  LimitSystemCalls(SystemCalls::kComputing);
}

absl::StatusOr<std::string> RunCarefully(
    const std::function<absl::StatusOr<std::string>(WorkerChannel*)>& work,
    WorkerChannel* channel) {
  try {
    return work(channel);
  } catch (const std::exception& error) {
    return Fail(ExitCode::kHostUnfit, error.what());
  }
}

[[noreturn]] void RunInChild(const WorkerOrder& order,
                             const std::function<absl::StatusOr<std::string>(WorkerChannel*)>& work,
                             pid_t parent, int socket) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);
  if (!order.title.empty()) prctl(PR_SET_NAME, order.title.c_str());
  std::vector<int> kept = order.keeps;
  kept.push_back(socket);
  CloseAllBut(std::move(kept));
  GiveUpRights(order);
  WorkerChannel channel(socket);
  const absl::StatusOr<std::string> result = RunCarefully(work, &channel);
  std::fflush(nullptr);
  if (result.ok()) {
    (void)SendMessage(socket, MessageKind::kResult, 0, *result, -1);
  } else {
    (void)SendMessage(socket, MessageKind::kFailure,
                      static_cast<int32_t>(ExitCodeOf(result.status())),
                      std::string(result.status().message()), -1);
  }
  // _exit() skips the exit handlers, which are the parent's to run.
  _exit(0);
}

std::string HowItEnded(const std::string& who, int state, int64_t longest_s) {
  const int signal = WIFSIGNALED(state) ? WTERMSIG(state) : 0;
  if (signal == SIGXCPU) {
    return who + " was stopped after " + std::to_string(longest_s) + " s of processor time";
  }
  if (signal == SIGKILL) {
    return who + " was killed; where it was the kernel, for want of memory, dmesg says so";
  }
  return who + " ended by " + (signal != 0 ? strsignal(signal) : "mistake") +
         ": what it read is damaged, or made to do harm, in a way that proftrace does not know; "
         "it had no rights that could be misused. Please report it";
}

class Worker {
 public:
  Worker(const WorkerOrder& order, pid_t child, UniqueFd socket)
      : order_(order),
        child_(child),
        socket_(std::move(socket)),
        deadline_ns_(MonotonicNs() + order.longest_s * kRealTimes * 1'000'000'000) {
    // A worker that stops in the middle of a message must not hold this process up.
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &kLongestMessage, sizeof(kLongestMessage));
    setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &kLongestMessage, sizeof(kLongestMessage));
  }

  absl::StatusOr<std::string> Run(
      const std::function<WorkerAnswer(std::string_view question)>& answer) {
    std::optional<Message> last;
    for (int64_t questions = 0; order_.is_lasting || questions < kMostQuestions; ++questions) {
      if (!Wait()) break;
      last = ReceiveMessage(socket_.get());
      if (!last || last->kind != MessageKind::kQuestion) break;
      const WorkerAnswer reply = answer(last->bytes);
      last.reset();
      if (!SendMessage(socket_.get(), MessageKind::kAnswer, 0, reply.bytes, reply.fd.get())) break;
    }
    const bool is_done =
        last && (last->kind == MessageKind::kResult || last->kind == MessageKind::kFailure);
    const int state = End();
    if (is_done && last->kind == MessageKind::kResult) return std::move(last->bytes);
    if (is_done) return Fail(static_cast<ExitCode>(last->code), last->bytes);
    const std::string who = "the process that " + order_.what;
    if (is_stopped_) {
      return Fail(ExitCode::kNoTarget, who + " was ended early, as proftrace was asked to end");
    }
    if (is_late_) return Fail(ExitCode::kHostUnfit, who + " did not end in time");
    const int signal = WIFSIGNALED(state) ? WTERMSIG(state) : 0;
    RaiseIfMeant(signal);
    // The kernel ended the worker for want of memory or processor time, which is no bug.
    const bool is_host = signal == SIGKILL || signal == SIGXCPU;
    return Fail(is_host ? ExitCode::kHostUnfit : ExitCode::kBug,
                HowItEnded(who, state, order_.longest_s));
  }

 private:
  // Waits for a message of the worker. False: the worker was stopped, is late, or cannot be waited
  // for.
  bool Wait() {
    while (true) {
      is_stopped_ = order_.stop != nullptr && order_.stop->load();
      is_late_ = !order_.is_lasting && MonotonicNs() > deadline_ns_;
      if (is_stopped_ || is_late_) return false;
      pollfd waited{socket_.get(), POLLIN, 0};
      const int ready = poll(&waited, 1, kLookMs);
      if (ready > 0) return true;
      if (ready < 0 && errno != EINTR) return false;
    }
  }

  // Ends the worker and returns its state, as waitpid(2) gives it.
  int End() {
    socket_ = UniqueFd();
    // A worker that has ended already keeps its state.
    kill(child_, SIGKILL);
    int state = 0;
    struct rusage use {};
    while (wait4(child_, &state, 0, &use) < 0 && errno == EINTR) {
    }
    for (const timeval& time : {use.ru_utime, use.ru_stime}) {
      worker_cpu_ns += time.tv_sec * 1'000'000'000 + time.tv_usec * 1000;
    }
    return state;
  }

  const WorkerOrder& order_;
  pid_t child_;
  UniqueFd socket_;
  int64_t deadline_ns_;
  bool is_stopped_ = false;
  bool is_late_ = false;
};

}  // namespace

int64_t WorkerCpuNs() { return worker_cpu_ns; }

WorkerAnswer WorkerChannel::Ask(std::string_view question) {
  const std::lock_guard lock(mutex_);
  if (SendMessage(fd_, MessageKind::kQuestion, 0, question, -1)) {
    std::optional<Message> message = ReceiveMessage(fd_);
    if (message && message->kind == MessageKind::kAnswer) {
      return WorkerAnswer{std::move(message->bytes), std::move(message->fd)};
    }
  }
  _exit(0);
}

absl::StatusOr<std::string> RunWorker(
    const WorkerOrder& order,
    const std::function<absl::StatusOr<std::string>(WorkerChannel* channel)>& work,
    const std::function<WorkerAnswer(std::string_view question)>& answer) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return NoMoreDescriptors(errno);
  UniqueFd ours(ends[0]);
  UniqueFd theirs(ends[1]);
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return NoMoreProcesses(errno);
  if (child == 0) RunInChild(order, work, parent, theirs.get());
  theirs = UniqueFd();
  return Worker(order, child, std::move(ours)).Run(answer);
}

absl::StatusOr<std::string> RunWorker(const WorkerOrder& order,
                                      const std::function<absl::StatusOr<std::string>()>& work) {
  return RunWorker(
      order, [&work](WorkerChannel*) { return work(); },
      [](std::string_view) { return WorkerAnswer(); });
}

}  // namespace proftrace
