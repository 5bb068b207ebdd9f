#include "symbols/process/remote_file.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "symbols/process/mounts.h"
#include "symbols/process/read_budget.h"
#include "symbols/process/volume_identity.h"
#include "userspace/base/clock.h"
#include "userspace/base/of_this_process.h"
#include "userspace/sandbox/messages.h"

namespace proftrace {
namespace {

// The longest wait for one answer. An NFS server that is far away answers in a tenth of a second,
// one that restarts needs minutes.
constexpr int64_t kLongestAnswerNs = 5'000'000'000;
// A file system that has not answered is asked again after this time.
constexpr int64_t kBetweenQuestionsNs = 60'000'000'000;
// The time between two looks whether the user wants to end.
constexpr int kPollMs = 20;
// The bytes of one read. A slow server sends that much within the time for one answer.
constexpr size_t kSharedBytes = size_t{1} << 20;

// The descriptors that the child has; it keeps no others.
constexpr int kSocket = 3;
constexpr int kRoot = 4;
constexpr int kUserNamespace = 5;
constexpr int kFirstFree = 6;

constexpr int64_t kOverlayType = 0x794c7630;  // OVERLAYFS_SUPER_MAGIC

struct Request {
  uint64_t offset = 0;
  uint64_t bytes = 0;  // 0: asks for the file's state
};

struct Answer {
  int32_t error = 0;
  uint32_t is_remote = 0;  // only in the first answer
  uint64_t bytes = 0;
  uint64_t mount = 0;  // only in the first answer; 0 = not known
  struct stat status {};
};

// The functions from here to Serve() run in the child of a process that may have many threads.
// Locks that other threads held at the fork stay held for ever in the child, so that these
// functions only make system calls and compute.

// Reads the numbers behind `name` in the text of a status file of /proc. Returns how many there
// are.
size_t NumbersBehind(const char* text, const char* name, gid_t* numbers, size_t most) {
  const char* line = std::strstr(text, name);
  size_t count = 0;
  if (line == nullptr) return 0;
  for (line += std::strlen(name); count < most && *line != '\n' && *line != '\0';) {
    if (*line < '0' || *line > '9') {
      ++line;
      continue;
    }
    uint64_t number = 0;
    for (; *line >= '0' && *line <= '9'; ++line) {
      number = number * 10 + static_cast<uint64_t>(*line - '0');
    }
    numbers[count++] = static_cast<gid_t>(number);
  }
  return count;
}

// Turns this process into that user, in the user's namespace, for good. Only the child does this,
// because a user may send signals to processes that run as that user.
bool Become(const RemoteUser& user) {
  constexpr size_t kMostGroups = 65536;  // NGROUPS_MAX
  static gid_t groups[kMostGroups];
  static char status[1 << 20];
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/%u/status", Raw(user.process));
  // EINVAL: this process is in that namespace already.
  if (setns(kUserNamespace, CLONE_NEWUSER) != 0 && errno != EINVAL) return false;
  // The status is read after setns(), because the kernel shows its numbers as the reader's
  // namespace has them.
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  size_t size = 0;
  while (fd >= 0 && size < sizeof(status) - 1) {
    const ssize_t got = read(fd, status + size, sizeof(status) - 1 - size);
    if (got <= 0) break;
    size += static_cast<size_t>(got);
  }
  close(fd);
  status[size] = '\0';
  gid_t ids[2] = {};  // real, effective
  if (NumbersBehind(status, "\nUid:", ids, 2) != 2) return false;
  const uid_t uid = user.user.value_or(ids[1]);
  if (NumbersBehind(status, "\nGid:", ids, 2) != 2) return false;
  const gid_t gid = user.group.value_or(ids[1]);
  const size_t count = NumbersBehind(status, "\nGroups:", groups, kMostGroups);
  // The change of groups may fail, because some namespaces do not permit it. The raw system calls
  // change this thread only, without the C library's work for all threads.
  (void)syscall(SYS_setgroups, count, groups);
  return syscall(SYS_setresgid, gid, gid, gid) == 0 && syscall(SYS_setresuid, uid, uid, uid) == 0;
}

// Whether this machine's kernel alone serves the files of a file system of this type.
bool IsLocal(int64_t type, bool are_overlays_remote) {
  if (type == kOverlayType) return !are_overlays_remote;
  constexpr int64_t kLocal[] = {
      0xef53 /* ext2, ext3, ext4 */, 0x58465342 /* xfs */,       0x9123683e /* btrfs */,
      0x01021994 /* tmpfs */,        0x858458f6 /* ramfs */,     0x73717368 /* squashfs */,
      0xe0f5e1e2 /* erofs */,        0xf2f52010 /* f2fs */,      0x2fc12fc1 /* zfs */,
      0xca451a4e /* bcachefs */,     0x958458f6 /* hugetlbfs */, 0x9fa0 /* proc */,
      0x62656572 /* sysfs */,        0x9660 /* isofs */,         0x4d44 /* vfat */,
      0x2011bab0 /* exfat */,        0x3153464a /* jfs */,
  };
  return std::any_of(std::begin(kLocal), std::end(kLocal), [type](int64_t t) { return t == type; });
}

int OpenPlace(const char* link, const char* path) {
  if (path == nullptr) return open(link, O_PATH | O_CLOEXEC);
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  return static_cast<int>(syscall(SYS_openat2, kRoot, path, &how, sizeof(how)));
}

bool SendAnswer(const Answer& answer, int fd) {
  iovec part{const_cast<Answer*>(&answer), sizeof(answer)};
  return SendWithDescriptor(kSocket, &part, 1, fd) == static_cast<ssize_t>(sizeof(answer));
}

// Opens the file that `place` names for reading, as root and then as the user. Returns the errno
// value where neither may, else 0.
int OpenForReading(const RemoteUser& user, int place, int* file) {
  char link[32];
  std::snprintf(link, sizeof(link), "/proc/self/fd/%d", place);
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  *file = open(link, kFlags);
  if (*file >= 0) return 0;
  const int error = errno;
  if ((error != EACCES && error != EPERM) || geteuid() != 0 || !Become(user)) return error;
  *file = open(link, kFlags);
  return *file >= 0 ? 0 : error;
}

[[noreturn]] void Serve(const char* link, const char* path, bool are_overlays_remote,
                        const RemoteUser& user, uint8_t* window) {
  prctl(PR_SET_DUMPABLE, 0);
  Answer answer;
  int file = -1;
  int place = OpenPlace(link, path);
  // A folder on the way may be one that only the user may enter.
  const bool is_refused = place < 0 && (errno == EACCES || errno == EPERM);
  if (is_refused && geteuid() == 0 && Become(user)) place = OpenPlace(link, path);
  if (place < 0) {
    answer.error = errno;
  } else {
    // Only a regular file is opened, because opening a device may have effects.
    answer.error = fstat(place, &answer.status) == 0 && !S_ISREG(answer.status.st_mode)
                       ? EINVAL
                       : OpenForReading(user, place, &file);
  }
  if (answer.error == 0 && fstat(file, &answer.status) != 0) answer.error = errno;
  if (answer.error == 0 && !S_ISREG(answer.status.st_mode)) answer.error = EINVAL;
  struct statfs system {};
  if (answer.error == 0) {
    answer.mount = UniqueMountNumber(file);
    answer.is_remote =
        fstatfs(file, &system) != 0 || !IsLocal(system.f_type, are_overlays_remote) ? 1 : 0;
  }
  const bool is_open = answer.error == 0;
  const int given = !is_open ? -1 : answer.is_remote != 0 ? place : file;
  if (!SendAnswer(answer, given) || !is_open || answer.is_remote == 0) _exit(0);
  Request request;
  while (recv(kSocket, &request, sizeof(request), 0) == static_cast<ssize_t>(sizeof(request))) {
    answer = {};
    if (request.bytes == 0) {
      if (fstat(file, &answer.status) != 0) answer.error = errno;
    } else {
      const ssize_t got = pread(file, window, std::min(request.bytes, uint64_t{kSharedBytes}),
                                static_cast<off_t>(request.offset));
      if (got < 0) answer.error = errno;
      answer.bytes = got < 0 ? 0 : static_cast<uint64_t>(got);
    }
    if (!SendAnswer(answer, -1)) break;
  }
  _exit(0);
}

// Closes all descriptors that the child has inherited but these three, so that no other file or
// process has to wait for the child's end.
void KeepDescriptors(int socket, int root, int user_namespace) {
  // Who reads this program's messages to their end must not have to wait for a file system that
  // never answers: while the child waits for it, not even SIGKILL ends the child.
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int stream = 0; stream <= STDERR_FILENO; ++stream) {
    if (null < 0 || dup2(null, stream) < 0) close(stream);
  }
  if (null > STDERR_FILENO) close(null);
  constexpr int kFar = 64;
  const int from[] = {socket, root, user_namespace};
  int far[] = {-1, -1, -1};
  for (int i = 0; i < 3; ++i) {
    if (from[i] >= 0) far[i] = fcntl(from[i], F_DUPFD_CLOEXEC, kFar);
  }
  for (int i = 0; i < 3; ++i) {
    close(kSocket + i);
    if (far[i] >= 0) dup3(far[i], kSocket + i, O_CLOEXEC);
  }
  syscall(SYS_close_range, kFirstFree, ~0U, 0);
}

// Returns the answer, and in `fd` a descriptor that may come with it. nullopt: no answer came in
// time, or the child has ended.
std::optional<Answer> Await(int socket, UniqueFd* fd) {
  const int64_t begin_ns = MonotonicNs();
  const int64_t longest_ns = ReadBudget::MayWaitNs(kLongestAnswerNs);
  pollfd event{socket, POLLIN, 0};
  int ready = 0;
  while ((ready = poll(&event, 1, kPollMs)) <= 0) {
    if (ready < 0 && errno != EINTR) return std::nullopt;
    const int64_t waited_ns = MonotonicNs() - begin_ns;
    if (waited_ns < longest_ns && ReadBudget::PayAll(0)) continue;
    ReadBudget::PayWait(waited_ns);
    return std::nullopt;
  }
  ReadBudget::PayWait(MonotonicNs() - begin_ns);
  Answer answer;
  const ssize_t got = ReceiveWithDescriptor(socket, {&answer, sizeof(answer)}, MSG_DONTWAIT, fd);
  if (got != static_cast<ssize_t>(sizeof(answer))) return std::nullopt;
  return answer;
}

// File systems that have not answered any reader of this process, and when each may be asked again.
struct SilentDevices {
  std::mutex mutex;
  std::map<uint64_t, int64_t> until_ns;
};

constinit OfThisProcess<SilentDevices> silent_devices;

bool IsSilent(std::optional<uint64_t> device) {
  if (!device.has_value()) return false;
  SilentDevices& silent = silent_devices.Get();
  const std::lock_guard lock(silent.mutex);
  const auto found = silent.until_ns.find(*device);
  return found != silent.until_ns.end() && MonotonicNs() < found->second;
}

void NoteSilent(uint64_t device) {
  SilentDevices& silent = silent_devices.Get();
  const std::lock_guard lock(silent.mutex);
  silent.until_ns[device] = MonotonicNs() + kBetweenQuestionsNs;
}

}  // namespace

class RemoteReader::State {
 public:
  State(int child, UniqueFd socket, void* window)
      : child_(child), socket_(std::move(socket)), window_(static_cast<uint8_t*>(window)) {}
  ~State() {
    End();
    munmap(window_, kSharedBytes);
  }

  size_t ReadAt(uint64_t offset, uint8_t* buffer, size_t bytes) {
    const std::lock_guard lock(mutex_);
    size_t done = 0;
    while (done < bytes) {
      const size_t piece = std::min(bytes - done, kSharedBytes);
      const std::optional<Answer> answer = Ask({offset + done, piece});
      if (!answer.has_value() || answer->bytes == 0 || answer->bytes > piece) break;
      std::memcpy(buffer + done, window_, answer->bytes);
      done += answer->bytes;
    }
    return done;
  }

  std::optional<struct stat> Stat() {
    const std::lock_guard lock(mutex_);
    const std::optional<Answer> answer = Ask({});
    return answer.has_value() && answer->error == 0 ? std::optional(answer->status) : std::nullopt;
  }

  std::optional<Answer> First(UniqueFd* fd) {
    const std::optional<Answer> answer = Await(socket_.get(), fd);
    if (!answer.has_value()) End();
    return answer;
  }

 private:
  std::optional<Answer> Ask(const Request& request) {
    if (!socket_.valid()) return std::nullopt;
    UniqueFd none;
    std::optional<Answer> answer;
    if (send(socket_.get(), &request, sizeof(request), MSG_NOSIGNAL | MSG_DONTWAIT) ==
        static_cast<ssize_t>(sizeof(request))) {
      answer = Await(socket_.get(), &none);
    }
    if (!answer.has_value()) End();
    return answer;
  }

  // Kills the child. A child that waits for its file system may end later, or never; then nobody
  // waits for it here.
  void End() {
    if (!socket_.valid()) return;
    socket_ = UniqueFd();
    kill(child_, SIGKILL);
    constexpr int kTries = 20;
    constexpr useconds_t kPauseUs = 500;
    for (int i = 0; i < kTries && waitpid(child_, nullptr, WNOHANG) == 0; ++i) usleep(kPauseUs);
  }

  pid_t child_;
  UniqueFd socket_;
  uint8_t* window_;  // the child writes into it
  std::mutex mutex_;
};

RemoteReader::RemoteReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
RemoteReader::~RemoteReader() = default;

size_t RemoteReader::ReadAt(uint64_t offset, void* buffer, size_t bytes) {
  return state_->ReadAt(offset, static_cast<uint8_t*>(buffer), bytes);
}

std::optional<struct stat> RemoteReader::Stat() { return state_->Stat(); }

RemoteFile RemoteReader::Open(const RemotePath& path, const RemoteUser& user) {
  RemoteFile file;
  if (!ReadBudget::PayAll(0) || ReadBudget::MayWaitNs(1) <= 0 || IsSilent(path.device)) {
    file.error = ETIMEDOUT;
    return file;
  }
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    file.error = errno;
    return file;
  }
  UniqueFd ours(ends[0]);
  UniqueFd its(ends[1]);
  void* window =
      mmap(nullptr, kSharedBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (window == MAP_FAILED) {
    file.error = errno;
    return file;
  }
  const std::string space = "/proc/" + std::to_string(Raw(user.process)) + "/ns/user";
  const UniqueFd user_namespace(open(space.c_str(), O_RDONLY | O_CLOEXEC));
  const char* in_root = path.root >= 0 ? path.path.c_str() : nullptr;
  const bool are_overlays_remote = SeesRemoteOverlay(user.process);
  const pid_t child = fork();
  if (child == 0) {
    KeepDescriptors(its.get(), path.root, user_namespace.get());
    Serve(path.link.c_str(), in_root, are_overlays_remote, user, static_cast<uint8_t*>(window));
  }
  if (child < 0) {
    file.error = errno;
    munmap(window, kSharedBytes);
    return file;
  }
  its = UniqueFd();
  auto state = std::make_unique<State>(child, std::move(ours), window);
  const std::optional<Answer> answer = state->First(&file.fd);
  file.error = answer.has_value() ? answer->error : ETIMEDOUT;
  if (!answer.has_value() && path.device.has_value() && ReadBudget::PayAll(0)) {
    NoteSilent(*path.device);
  }
  if (!answer.has_value() || answer->error != 0 || !file.fd.valid()) {
    file.fd = UniqueFd();
    if (file.error == 0) file.error = EMFILE;  // the answer came without its descriptor
    return file;
  }
  file.status = answer->status;
  file.mount = answer->mount;
  if (answer->is_remote != 0) file.reader.reset(new RemoteReader(std::move(state)));
  return file;
}

}  // namespace proftrace
