#include "userspace/patch/guardian.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace proftrace {
namespace {

constexpr size_t kMostTargets = 1024;
constexpr size_t kPidChars = 11;  // of a 32-bit number in decimal, with the zero byte
constexpr char kSelf[] = "/proc/self/exe";

struct Note {
  uint32_t pid = 0;
  uint32_t is_watched = 0;
};

// The code of the guardian process. The process was forked, with all signals blocked, from a
// program that may have other threads, so nothing here may allocate memory.
class Life {
 public:
  [[noreturn]] void Run(int socket, int tracer) {
    prctl(PR_SET_NAME, "proftrace-guard");
    // Neither a terminal's interrupt nor a shell that kills its group reaches it then.
    setsid();
    KeepOnly(socket, tracer);
    pollfd both[] = {{socket, POLLIN, 0}, {tracer, POLLIN, 0}};
    bool has_ended = false;
    // As long as there are patches, the tracer's end is waited for: nobody else may touch a patched
    // process before that.
    while (!has_ended && (both[0].fd >= 0 || count_ > 0)) {
      if (poll(both, 2, -1) < 0 && errno != EINTR) break;
      // The tracer's last notes can still be read after it has ended.
      has_ended = (both[1].revents & POLLIN) != 0;
      if (both[0].fd >= 0 && !TakeNotes(socket)) both[0].fd = -1;
    }
    if (count_ > 0) Clean();
    _exit(0);
  }

 private:
  // Closes all other descriptors, so that nobody's pipe stays open because of the guardian.
  static void KeepOnly(int a, int b) {
    const int low = std::min(a, b);
    const int high = std::max(a, b);
    if (low > 0) syscall(SYS_close_range, 0, low - 1, 0);
    if (high > low + 1) syscall(SYS_close_range, low + 1, high - 1, 0);
    syscall(SYS_close_range, high + 1, ~0U, 0);
  }

  // Takes all notes that have arrived. Returns false where no more can come.
  bool TakeNotes(int socket) {
    while (true) {
      Note note;
      const ssize_t bytes = recv(socket, &note, sizeof(note), MSG_DONTWAIT);
      if (bytes == static_cast<ssize_t>(sizeof(note))) {
        Take(note);
      } else if (bytes >= 0 || errno != EINTR) {
        return bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
      }
    }
  }

  void Take(const Note& note) {
    uint32_t* const end = targets_.data() + count_;
    uint32_t* const at = std::find(targets_.data(), end, note.pid);
    if (note.is_watched == 0 && at != end) {
      *at = targets_[--count_];
    } else if (note.is_watched != 0 && at == end && count_ < kMostTargets) {
      targets_[count_++] = note.pid;
    }
  }

  void Clean() {
    // The started program takes the descriptors 0 to 2 for its input and output, so they are
    // /dev/null.
    const int nothing = open("/dev/null", O_RDWR);
    for (int fd = 0; fd <= STDERR_FILENO; ++fd) dup2(nothing, fd);
    size_t words = 0;
    words_[words++] = kSelf;
    words_[words++] = "clean";
    words_[words++] = "--wait";
    for (size_t i = 0; i < count_; ++i) {
      char* const text = texts_[i].data();
      *std::to_chars(text, text + kPidChars - 1, targets_[i]).ptr = '\0';
      words_[words++] = "-p";
      words_[words++] = text;
    }
    execve(kSelf, const_cast<char* const*>(words_.data()), environ);
  }

  std::array<uint32_t, kMostTargets> targets_{};
  size_t count_ = 0;
  std::array<std::array<char, kPidChars>, kMostTargets> texts_{};
  std::array<const char*, 2 * kMostTargets + 4> words_{};
};

}  // namespace

std::unique_ptr<PatchGuardian> PatchGuardian::Start() {
  std::unique_ptr<PatchGuardian> guardian(new PatchGuardian);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return guardian;
  UniqueFd mine(ends[0]);
  const UniqueFd other(ends[1]);
  // The pidfd becomes readable when all of the tracer's threads have ended, and so hold no stopped
  // threads any more.
  const UniqueFd self(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  if (!self.valid()) return guardian;
  // Signals are blocked before the fork, so that none ends the guardian, from its first instruction
  // on.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  const pid_t pid = fork();
  if (pid == 0) Life().Run(other.get(), self.get());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return guardian;
  guardian->socket_ = std::move(mine);
  guardian->pid_ = pid;
  return guardian;
}

PatchGuardian::~PatchGuardian() {
  if (pid_ < 0) return;
  // Closing the socket would not be enough, because another child may have the descriptor, too.
  shutdown(socket_.get(), SHUT_RDWR);
  const std::lock_guard lock(mutex_);
  if (!watched_.empty()) return;
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void PatchGuardian::Tell(Pid pid, bool is_watched) {
  const Note note{Raw(pid), is_watched ? 1U : 0U};
  const std::lock_guard lock(mutex_);
  if (is_watched) {
    watched_.insert(pid);
  } else {
    watched_.erase(pid);
  }
  if (socket_.valid()) (void)send(socket_.get(), &note, sizeof(note), MSG_NOSIGNAL);
}

}  // namespace proftrace
