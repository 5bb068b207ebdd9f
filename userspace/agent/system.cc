#include "userspace/agent/system.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/memfd.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// The build host's glibc may have newer versions of these symbols (2.34 moved libdl and libpthread
// into libc), which older ones do not have.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
__asm__(".symver dlopen,dlopen@GLIBC_2.2.5");
__asm__(".symver dlsym,dlsym@GLIBC_2.2.5");
__asm__(".symver pthread_create,pthread_create@GLIBC_2.2.5");
__asm__(".symver pthread_attr_setdetachstate,pthread_attr_setdetachstate@GLIBC_2.2.5");
__asm__(".symver pthread_attr_setstacksize,pthread_attr_setstacksize@GLIBC_2.2.5");
#endif

extern "C" int __cxa_atexit(void (*function)(void*), void* argument, void* library);
extern "C" int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(),
                                 void* library);

namespace proftrace::agent {
namespace {

constexpr size_t kStackBytes = 1 << 20;  // CUPTI's calls and dlopen run on it

uint64_t ClockNs(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

struct ThreadStart {
  char name[16];
  void* (*run)(void*);
  void* argument;
};
ThreadStart g_thread_start;  // only one thread is started at a time

void* RunThread(void* /*unused*/) {
  const ThreadStart start = g_thread_start;
  prctl(PR_SET_NAME, start.name);
  return start.run(start.argument);
}

}  // namespace

void* MapPrivate(size_t bytes) {
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return address == MAP_FAILED ? nullptr : address;
}

void* MapShared(int fd, size_t bytes) {
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) return nullptr;
  madvise(address, bytes, MADV_DONTFORK);
  return address;
}

void Unmap(void* address, size_t bytes) { munmap(address, bytes); }

void GiveBack(void* address, size_t bytes) { madvise(address, bytes, MADV_DONTNEED); }

int MakeMemoryFile(const char* name, size_t bytes) {
  const int fd = static_cast<int>(syscall(SYS_memfd_create, name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (fd < 0) return -errno;
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0 ||
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    const int error = errno;
    close(fd);
    return -error;
  }
  return fd;
}

void Close(int fd) { close(fd); }

size_t ReadFile(const char* path, char* text, size_t bytes) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  size_t have = 0;
  while (have < bytes) {
    const ssize_t got = read(fd, text + have, bytes - have);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    have += static_cast<size_t>(got);
  }
  close(fd);
  return have;
}

bool FileExists(const char* path) { return access(path, R_OK) == 0; }

int ProcessId() { return static_cast<int>(syscall(SYS_getpid)); }
int ThreadId() { return static_cast<int>(syscall(SYS_gettid)); }

uint64_t MonotonicNs() { return ClockNs(CLOCK_MONOTONIC); }
uint64_t RealtimeNs() { return ClockNs(CLOCK_REALTIME); }

void WaitOn(const uint32_t* word, uint32_t value, uint64_t timeout_ns) {
  timespec timeout{};
  timeout.tv_sec = static_cast<time_t>(timeout_ns / 1'000'000'000);
  timeout.tv_nsec = static_cast<long>(timeout_ns % 1'000'000'000);
  syscall(SYS_futex, word, FUTEX_WAIT, value, &timeout, nullptr, 0);
}

void WakeAll(const uint32_t* word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

int StartThread(const char* name, void* (*run)(void*), void* argument) {
  strncpy(g_thread_start.name, name, sizeof(g_thread_start.name) - 1);
  g_thread_start.run = run;
  g_thread_start.argument = argument;
  // The new thread inherits the signal mask of the thread that makes it.
  uint64_t all = ~uint64_t{0};
  uint64_t before = 0;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof(all));
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_t thread{};
  const int error = pthread_create(&thread, &attributes, RunThread, nullptr);
  pthread_attr_destroy(&attributes);
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, nullptr, sizeof(before));
  return -error;
}

void CallAtExitOnce(void (*at_exit)(void*), bool* is_done) {
  if (*is_done) return;
  *is_done = true;
  __cxa_atexit(at_exit, nullptr, nullptr);
}

void CallInChildren(void (*in_child)()) { __register_atfork(nullptr, nullptr, in_child, nullptr); }

void* OpenLibrary(const char* name, bool open) {
  return dlopen(name, RTLD_LAZY | RTLD_LOCAL | (open ? 0 : RTLD_NOLOAD));
}

void* FindFunction(void* library, const char* name) { return dlsym(library, name); }

Text TextIn(char* buffer, size_t bytes) {
  buffer[0] = '\0';
  return Text{buffer, buffer + bytes - 1};
}

void Append(Text* text, const char* what) {
  while (*what != '\0' && text->at < text->end) *text->at++ = *what++;
  *text->at = '\0';
}

void AppendNumber(Text* text, uint64_t number) {
  char digits[21];
  char* first = digits + sizeof(digits) - 1;
  *first = '\0';
  do {
    *--first = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number != 0);
  Append(text, first);
}

}  // namespace proftrace::agent
