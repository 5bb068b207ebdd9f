#include "userspace/capture/kernel/link_guard.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <utility>

namespace proftrace {
namespace {

// From linux/bpf.h of 6.6: the distribution's header and libbpf may be older than the kernel.
constexpr uint32_t kAttachTypeUprobeMulti = 48;
constexpr int kLinkCreate = 28;

struct UprobeMultiAttributes {
  uint32_t prog_fd;
  uint32_t target_fd;
  uint32_t attach_type;
  uint32_t link_flags;
  uint64_t path;
  uint64_t offsets;
  uint64_t ref_ctr_offsets;
  uint64_t cookies;
  uint32_t count;
  uint32_t flags;
  uint32_t pid;
  uint32_t padding;
};

// Returns the link's descriptor, or -1 with errno.
int CreateLink(int program_fd, int file_fd, const uint64_t* offsets, const uint64_t* cookies,
               uint32_t count, uint32_t pid) {
  char path[32];
  // Nothing is allocated here, because the guard calls this function.
  std::snprintf(path, sizeof(path), "/proc/self/fd/%d", file_fd);
  UprobeMultiAttributes attributes{};
  attributes.prog_fd = static_cast<uint32_t>(program_fd);
  attributes.attach_type = kAttachTypeUprobeMulti;
  attributes.path = reinterpret_cast<uint64_t>(path);
  attributes.offsets = reinterpret_cast<uint64_t>(offsets);
  attributes.cookies = reinterpret_cast<uint64_t>(cookies);
  attributes.count = count;
  attributes.pid = pid;
  return static_cast<int>(syscall(SYS_bpf, kLinkCreate, &attributes, sizeof(attributes)));
}

enum class Wish : uint32_t { kCreate, kDrop };

// A question to the guard. With kCreate it carries three descriptors: the program, the file, and
// memory with the offsets and the cookies.
struct Question {
  Wish wish = Wish::kCreate;
  int number = -1;  // with kDrop: the link to close
  uint32_t count = 0;
  uint32_t pid = 0;
  uint64_t memory_bytes = 0;
};

// The guard's answer. With a link it carries the link's descriptor.
struct Answer {
  int error = 0;
  int number = -1;
};

constexpr size_t kMostDescriptors = 3;

// Sends one message with up to three descriptors. Returns false when the other side is gone.
template <typename Message>
bool Send(int socket, const Message& message, const int* descriptors, size_t count) {
  alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
  iovec data{const_cast<Message*>(&message), sizeof(message)};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  if (count > 0) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(count * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(count * sizeof(int));
    std::memcpy(CMSG_DATA(rights), descriptors, count * sizeof(int));
  }
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket, &header, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(sizeof(message));
}

// Receives one message. Descriptors that did not come are -1.
template <typename Message>
bool Receive(int socket, Message* message, int (&descriptors)[kMostDescriptors]) {
  for (int& descriptor : descriptors) descriptor = -1;
  alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
  iovec data{message, sizeof(*message)};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  ssize_t received = 0;
  do {
    received = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received != static_cast<ssize_t>(sizeof(*message))) return false;
  const cmsghdr* rights = CMSG_FIRSTHDR(&header);
  if (rights == nullptr || rights->cmsg_type != SCM_RIGHTS) return true;
  const size_t count = (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  if (count <= kMostDescriptors) std::memcpy(descriptors, CMSG_DATA(rights), count * sizeof(int));
  return true;
}

int CreateAsAsked(const Question& question, int program_fd, int file_fd, int memory_fd) {
  void* memory = mmap(nullptr, question.memory_bytes, PROT_READ, MAP_PRIVATE, memory_fd, 0);
  if (memory == MAP_FAILED) return -1;
  const auto* offsets = static_cast<const uint64_t*>(memory);
  const uint64_t* cookies = offsets + question.count;
  const int fd = CreateLink(program_fd, file_fd, offsets, cookies, question.count, question.pid);
  const int error = errno;
  munmap(memory, question.memory_bytes);
  errno = error;
  return fd;
}

// Runs the guard until its socket closes. It was forked from a program that may have threads, so
// nothing here may allocate.
[[noreturn]] void Guard(int socket) {
  prctl(PR_SET_NAME, "proftrace-guard");
  setsid();  // so that neither a terminal's interrupt nor a shell's kill of the whole job ends it
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, nullptr);
  // The guard must keep no pipe of anyone open.
  if (socket > 0) syscall(SYS_close_range, 0, socket - 1, 0);
  syscall(SYS_close_range, socket + 1, ~0U, 0);
  Question question;
  int descriptors[kMostDescriptors];
  while (Receive(socket, &question, descriptors)) {
    Answer answer;
    if (question.wish == Wish::kCreate) {
      answer.number = CreateAsAsked(question, descriptors[0], descriptors[1], descriptors[2]);
      answer.error = answer.number < 0 ? errno : 0;
    } else {
      close(question.number);
    }
    for (const int descriptor : descriptors) {
      if (descriptor >= 0) close(descriptor);
    }
    if (!Send(socket, answer, &answer.number, answer.number >= 0 ? 1 : 0)) break;
  }
  _exit(0);  // closes the links that are left
}

// Makes a memory with offsets and cookies, for the other process to map.
UniqueFd ShareArrays(const MultiLinkRequest& request, uint64_t* bytes) {
  const size_t array_bytes = request.offsets.size() * sizeof(uint64_t);
  *bytes = 2 * array_bytes;
  UniqueFd fd(memfd_create("proftrace-link", MFD_CLOEXEC));
  if (!fd.valid()) return fd;
  const auto write_all = [&fd](const void* data, size_t size, uint64_t at) {
    return pwrite(fd.get(), data, size, static_cast<off_t>(at)) == static_cast<ssize_t>(size);
  };
  const bool is_whole = write_all(request.offsets.data(), array_bytes, 0) &&
                        write_all(request.cookies.data(), array_bytes, array_bytes);
  return is_whole ? std::move(fd) : UniqueFd();
}

}  // namespace

ProbeLink& ProbeLink::operator=(ProbeLink&& other) noexcept {
  if (this == &other) return *this;
  Close();
  fd_ = std::move(other.fd_);
  guard_ = std::move(other.guard_);
  number_ = other.number_;
  needed_ = std::move(other.needed_);
  return *this;
}

void ProbeLink::Close() {
  fd_ = UniqueFd();
  // The guard's descriptor is closed last, so the kernel removes the probes in the guard.
  if (guard_ != nullptr) guard_->Drop(number_);
  guard_.reset();
  needed_.reset();
}

void ProbeLink::Abandon() {
  (void)fd_.Release();
  guard_.reset();
}

std::shared_ptr<LinkGuard> LinkGuard::Start() {
  std::shared_ptr<LinkGuard> guard(new LinkGuard);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return guard;
  UniqueFd mine(ends[0]);
  UniqueFd other(ends[1]);
  const pid_t pid = fork();
  if (pid == 0) Guard(other.get());
  if (pid < 0) return guard;
  guard->socket_ = std::move(mine);
  guard->pid_ = pid;
  return guard;
}

LinkGuard::~LinkGuard() {
  if (pid_ < 0) return;
  socket_ = UniqueFd();
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

int LinkGuard::Create(const MultiLinkRequest& request, LinkSet* links) {
  const auto count = static_cast<uint32_t>(request.offsets.size());
  Question question{Wish::kCreate, -1, count, request.pid, 0};
  const UniqueFd memory = ShareArrays(request, &question.memory_bytes);
  if (memory.valid()) {
    const std::lock_guard lock(mutex_);
    const int sent[] = {request.program_fd, request.file_fd, memory.get()};
    Answer answer;
    int received[kMostDescriptors];
    // The guard may have been killed, or could not be started.
    if (socket_.valid() && Send(socket_.get(), question, sent, std::size(sent)) &&
        Receive(socket_.get(), &answer, received)) {
      if (answer.error != 0) return answer.error;
      links->emplace_back(UniqueFd(received[0]), shared_from_this(), answer.number);
      return 0;
    }
  }
  const int fd = CreateLink(request.program_fd, request.file_fd, request.offsets.data(),
                            request.cookies.data(), count, request.pid);
  if (fd < 0) return errno;
  links->emplace_back(UniqueFd(fd));
  return 0;
}

void LinkGuard::Drop(int number) {
  const std::lock_guard lock(mutex_);
  Question question;
  question.wish = Wish::kDrop;
  question.number = number;
  Answer answer;
  int none[kMostDescriptors];
  if (Send(socket_.get(), question, nullptr, 0)) (void)Receive(socket_.get(), &answer, none);
}

}  // namespace proftrace
