// hostile KIND SECONDS: a program whose threads hold known values in every register, the red zone,
// errno and all else that the kernel and libc keep for a thread while they come by state_point(),
// and look at all of it afterwards. Prints `ready`, and `passed N failures M interrupted K` at its
// end: after so many seconds, or at SIGTERM; the first failures are named on stderr. Kinds:
//   alone     the first thread does it, nobody else
//   threads   four threads do
//   starts    (with threads) the first one starts and joins threads that come by once
//   sequences (with threads) all threads count in restartable sequences as well
//   handlers  (with threads or alone) the first thread is mostly in a handler on an alternate stack
//             that has little room; signals are queued to it and counted
//   listed=N,N   (with threads) threads make no calls but those of these numbers: a seccomp filter
//             kills the process for every other one; with `some` it is the last thread's alone
//   in=CALL   four threads come by; the first one waits in CALL over and over
#define _GNU_SOURCE
#include "machine_state.h"

#include <asm/prctl.h>
#include <cpuid.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/rseq.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kMostNamed = 8, kWaitMs = 40, kMostProcessors = 1024, kSpins = 20000 };

struct machine_state clean_state;

static volatile int is_over;
static long passed, failures, interrupted, named, counted;
static uint64_t filled;  // components of XSAVE's area that get values of ours
static uint64_t counts[kMostProcessors * 8] __attribute__((aligned(64)));
static const char* kind;
static double until;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void fail(const char* what, long index, uint64_t is, uint64_t expected) {
  __atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED);
  if (__atomic_add_fetch(&named, 1, __ATOMIC_RELAXED) > kMostNamed) return;
  dprintf(2, "%s %ld is %lx, not %lx\n", what, index, is, expected);
}

static void expect(const char* what, long index, uint64_t is, uint64_t expected) {
  if (is != expected) fail(what, index, is, expected);
}

static uint64_t next_random(uint64_t* seed) {
  *seed ^= *seed << 13;
  *seed ^= *seed >> 7;
  *seed ^= *seed << 17;
  return *seed;
}

// Finds the components of the XSAVE area whose values a thread may choose freely: AVX (2), AVX-512
// (5, 6, 7: masks and registers), and the rights of memory keys (9), where key 0 must stay usable.
static void find_components(void) {
  unsigned a, b, c, d;
  __cpuid_count(0xd, 0, a, b, c, d);
  if (b > STATE_VECTOR_BYTES) exit(2);
  filled = 3 | (a & 0x2e4);
  __asm__ volatile("xsave64 %0" : "=m"(clean_state.vectors) : "a"(-1), "d"(-1) : "memory");
}

static void make_state(uint64_t* seed, struct machine_state* state, int may_align) {
  for (int i = 0; i < 15; ++i) state->registers[i] = next_random(seed);
  for (int i = 0; i < 16; ++i) state->red_zone[i] = next_random(seed);
  // Carry, parity, adjust, zero, sign, direction, overflow, and the one that only cpuid's test
  // uses.
  state->flags = 0x202 | (next_random(seed) & 0x200cd5);
  if (may_align && (next_random(seed) & 7) == 0) state->flags |= 0x40000;  // alignment is checked
  memcpy(state->vectors, clean_state.vectors, sizeof(state->vectors));
  uint16_t* words = (uint16_t*)state->vectors;
  words[0] = (uint16_t)(0x37f | (next_random(seed) & 0xc00));   // x87: all masked, any rounding
  words[1] = (uint16_t)(next_random(seed) & 0x7f00 & ~0x8000);  // its top and conditions
  state->vectors[4] = (uint8_t)next_random(seed);               // which of its registers are used
  const uint32_t sse = 0x1f80 | (next_random(seed) & 0xe07f);   // masked; rounding, zeroing, flags
  memcpy(state->vectors + 24, &sse, sizeof(sse));
  for (int i = 0; i < 8; ++i) {
    for (int byte = 0; byte < 10; ++byte)
      state->vectors[32 + i * 16 + byte] = (uint8_t)next_random(seed);
  }
  for (int i = 160; i < 416; ++i) state->vectors[i] = (uint8_t)next_random(seed);
  for (unsigned component = 2; component < 10; ++component) {
    unsigned size, offset, c, d;
    if ((filled >> component & 1) == 0) continue;
    __cpuid_count(0xd, component, size, offset, c, d);
    for (unsigned i = 0; i < size; ++i) {
      uint8_t value = (uint8_t)next_random(seed);
      if (component == 9) value = i == 0 ? value & 0xfc : i < 4 ? value : 0;
      state->vectors[offset + i] = value;
    }
  }
  memcpy(state->vectors + 512, &filled, sizeof(filled));
  memset(state->vectors + 520, 0, 56);
}

// What the kernel and libc keep for a thread, but for its registers.
struct kept {
  uint64_t signals, robust_list, robust_bytes, fs, gs, rseq_section;
  stack_t alternate;
  cpu_set_t processors;
  int policy, nice;
  char name[16];
};

static struct rseq* rseq_area(void) {
  return (struct rseq*)((char*)__builtin_thread_pointer() + __rseq_offset);
}

static void look(struct kept* kept) {
  memset(kept, 0, sizeof(*kept));
  syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &kept->signals, 8);
  syscall(SYS_get_robust_list, 0, &kept->robust_list, &kept->robust_bytes);
  syscall(SYS_arch_prctl, ARCH_GET_FS, &kept->fs);
  syscall(SYS_arch_prctl, ARCH_GET_GS, &kept->gs);
  sigaltstack(NULL, &kept->alternate);
  sched_getaffinity(0, sizeof(kept->processors), &kept->processors);
  kept->policy = sched_getscheduler(0);
  kept->nice = getpriority(PRIO_PROCESS, 0);
  pthread_getname_np(pthread_self(), kept->name, sizeof(kept->name));
  if (__rseq_size != 0 && rseq_area()->cpu_id >= kMostProcessors) kept->rseq_section = ~0ul;
}

static void check_state(uint64_t* seed, struct machine_state* states) {
  struct machine_state *in = &states[0], *expected = &states[1], *out = &states[2];
  make_state(seed, in, strstr(kind, "handlers") == NULL);
  memset(expected->vectors, 0, sizeof(expected->vectors));
  memset(out->vectors, 0, sizeof(out->vectors));
  pass_state(in, expected, 0);
  const int number = (int)(next_random(seed) & 0x7fff);
  errno = number;
  pass_state(in, out, 1);
  expect("errno", 0, (uint64_t)errno, (uint64_t)number);
  for (int i = 0; i < 15; ++i) expect("register", i, out->registers[i], in->registers[i]);
  expect("flags", 0, out->flags, in->flags);
  for (int i = 0; i < 16; ++i) expect("red zone", i, out->red_zone[i], in->red_zone[i]);
  // What the processor stores of what it has loaded: it leaves out x87's pointers, and the like.
  const uint64_t *is = (uint64_t*)out->vectors, *was = (uint64_t*)expected->vectors;
  for (size_t i = 0; i < sizeof(out->vectors) / 8; ++i) expect("vectors", (long)i, is[i], was[i]);
  if (memcmp(expected->vectors + 160, in->vectors + 160, 256) != 0) fail("xmm", 0, 0, 0);
}

static void count_per_processor(void) {
  const long area = (long)__rseq_offset;
  for (int i = 0; i < 20; ++i) {
    if (add_per_processor(counts, area, kSpins) >= 0)
      __atomic_add_fetch(&counted, 1, __ATOMIC_RELAXED);
  }
}

// Allows the calling thread, and all threads that it starts from now on, only the calls of the list
// and those that end the program.
static void allow_listed(void) {
  enum { kMostCalls = 100 };
  struct sock_filter code[kMostCalls * 2 + 2] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
  unsigned short at = 1;
  const char* list = strstr(kind, "listed=") + strlen("listed=");
  char* rest = NULL;
  void* volatile first = malloc(1);  // the first one asks for random bytes
  free(first);
  const long own[] = {SYS_write, SYS_exit_group, -1};
  for (int i = 0; at < kMostCalls * 2;) {
    long number = *list >= '0' && *list <= '9' ? strtol(list, &rest, 10) : own[i++];
    if (number < 0) break;
    if (rest != NULL) list = *rest == ',' ? rest + 1 : rest;
    code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1);
    code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  }
  code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  struct sock_fprog program = {at, code};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) exit(2);
}

static void* come_by(void* argument) {
  uint64_t seed = (uint64_t)(long)argument * 0x9e3779b97f4a7c15 + 88172645463325252;
  struct machine_state* states = aligned_alloc(64, 3 * sizeof(*states));
  memset(states, 0, 3 * sizeof(*states));
  static char segment[64];
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1 + (int)((long)argument & 1));
  const int is_listed = strstr(kind, "listed") != NULL;
  if ((long)argument != 9 && !is_listed) {
    pthread_sigmask(SIG_SETMASK, &blocked, NULL);
    syscall(SYS_arch_prctl, ARCH_SET_GS, segment + (long)argument);
  }
  struct kept before, after;
  long rounds = 0;
  if (!is_listed) look(&before);
  if ((long)argument == 3 && strstr(kind, "some")) allow_listed();
  do {
    check_state(&seed, states);
    if (strstr(kind, "sequences")) count_per_processor();
    if (rounds % 8 == 0 && !is_listed) {
      look(&after);
      if (memcmp(&before, &after, sizeof(before)) != 0) fail("kept", (long)argument, 0, 0);
    }
    ++rounds;
  } while (!is_over && now() < until && (long)argument < 10);
  __atomic_add_fetch(&passed, rounds, __ATOMIC_RELAXED);
  free(states);
  return NULL;
}

static void on_end(int number) { is_over = number; }

// Handlers on an alternate stack with as much room as they need, and with what must stay as it is
// below it.
enum { kCanary = 16384, kOwnRoom = 1024, kHandlerUs = 1500 };
static uint8_t* alternate;
static volatile long received, sent;

static void on_queued(int number, siginfo_t* info, void* context) {
  (void)number, (void)info, (void)context;
  const double end = now() + kHandlerUs * 1e-6;
  while (now() < end) continue;
  ++received;
}

static void check_canary(void) {
  for (int i = 0; i < kCanary; ++i) expect("below the alternate stack", i, alternate[i], 0xa5);
}

static void set_handlers(void) {
  const size_t room = (size_t)sysconf(_SC_MINSIGSTKSZ) + kOwnRoom;
  alternate = malloc(kCanary + room);
  memset(alternate, 0xa5, kCanary + room);
  stack_t stack = {.ss_sp = alternate + kCanary, .ss_size = room};
  struct sigaction action = {.sa_sigaction = on_queued,
                             .sa_flags = SA_RESTART | SA_ONSTACK | SA_SIGINFO};
  sigfillset(&action.sa_mask);  // there is no room for a second one
  if (sigaltstack(&stack, NULL) != 0 || sigaction(SIGRTMIN, &action, NULL) != 0) exit(2);
}

static void* queue_signals(void* first) {
  while (!is_over && now() < until) {
    if (sent - received < 16)
      sent += pthread_sigqueue(*(pthread_t*)first, SIGRTMIN, (union sigval){0}) == 0;
    usleep(kHandlerUs * 4 / 3);
  }
  return NULL;
}

// One wait of kWaitMs: its result, where 0 is as expected.
static int quiet[2], told[2], full[2], sockets[2];

static void* tell(void* unused) {
  char bytes[4096];
  while (!is_over) {
    usleep(kWaitMs * 1000);
    if (write(told[1], "x", 1) != 1) break;
    while (recv(full[0], bytes, sizeof(bytes), MSG_DONTWAIT) > 0) continue;
  }
  return unused;
}

static long wait_in(const char* call) {
  struct timespec wait = {0, kWaitMs * 1000000L};
  struct timeval short_wait = {0, kWaitMs * 1000};
  struct pollfd poll_quiet = {quiet[0], POLLIN, 0};
  char byte[512] = "";
  if (strcmp(call, "nanosleep") == 0) return nanosleep(&wait, NULL);
  if (strcmp(call, "clock_nanosleep") == 0) {
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_nsec += kWaitMs * 1000000L;
    if (end.tv_nsec >= 1000000000) end.tv_nsec -= 1000000000, ++end.tv_sec;
    return syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL);
  }
  if (strcmp(call, "poll") == 0) return poll(&poll_quiet, 1, kWaitMs);
  if (strcmp(call, "ppoll") == 0) return ppoll(&poll_quiet, 1, &wait, NULL);
  if (strcmp(call, "select") == 0) return select(0, NULL, NULL, NULL, &short_wait);
  if (strcmp(call, "futex") == 0) {
    static int word;
    const long result = syscall(SYS_futex, &word, 0 /* FUTEX_WAIT */, 0, &wait, NULL, 0);
    return result == -1 && errno == ETIMEDOUT ? 0 : result;
  }
  if (strcmp(call, "read") == 0) return read(told[0], byte, 1) == 1 ? 0 : -1;
  if (strcmp(call, "write") == 0) return send(full[1], byte, sizeof(byte), 0) > 0 ? 0 : -1;
  if (strcmp(call, "epoll_wait") == 0) {
    static int epoll = -1;
    if (epoll < 0) epoll = epoll_create1(0);
    struct epoll_event event;
    return epoll_wait(epoll, &event, 1, kWaitMs);
  }
  if (strcmp(call, "sigtimedwait") == 0) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    const int result = sigtimedwait(&set, NULL, &wait);
    return result == -1 && errno == EAGAIN ? 0 : result;
  }
  if (strcmp(call, "recv_with_a_timeout") == 0) {
    const ssize_t result = recv(sockets[0], byte, 1, 0);
    return result == -1 && errno == EAGAIN ? 0 : result;
  }
  if (strcmp(call, "wait4") == 0 || strcmp(call, "vfork") == 0) {
    const pid_t child = call[0] == 'v' ? vfork() : fork();
    if (child == 0) {
      syscall(SYS_nanosleep, &wait, NULL);
      _exit(3);
    }
    int status = 0;
    const pid_t got = waitpid(child, &status, 0);
    return got == child && WIFEXITED(status) && WEXITSTATUS(status) == 3 ? 0 : -1;
  }
  if (strcmp(call, "posix_spawn") == 0) {
    pid_t child = 0;
    char* const arguments[] = {"sh", "-c", "exit 3", NULL};
    int status = 0;
    if (posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, NULL) != 0) return -1;
    return waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3 ? 0 : -1;
  }
  exit(2);
}

static void wait_over_and_over(const char* call) {
  struct timeval short_wait = {0, kWaitMs * 1000};
  pthread_t teller;
  if (pipe(quiet) != 0 || pipe(told) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, full) != 0 ||
      socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0 ||
      setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &short_wait, sizeof(short_wait)) != 0 ||
      pthread_create(&teller, NULL, tell, NULL) != 0) {
    exit(2);
  }
  const int is_timed = strcmp(call, "read") && strcmp(call, "write") && strcmp(call, "posix_spawn");
  while (!is_over && now() < until) {
    const double begin = now();
    const long result = wait_in(call);
    if (is_over) break;  // SIGTERM
    if (result != 0 && errno == EINTR) {
      ++interrupted;
      continue;
    }
    expect(call, 0, (uint64_t)result, 0);
    const double took_ms = (now() - begin) * 1e3;
    if (is_timed && took_ms < kWaitMs - 1) fail("ms in the call", 0, (uint64_t)took_ms, kWaitMs);
    ++passed;
  }
  pthread_join(teller, NULL);
}

int main(int count, char** arguments) {
  kind = count > 1 ? arguments[1] : "";
  until = now() + (count > 2 ? atof(arguments[2]) : 5);
  struct sigaction end = {.sa_handler = on_end, .sa_flags = SA_RESTART};
  sigaction(SIGTERM, &end, NULL);
  signal(SIGUSR2, SIG_IGN);
  find_components();
  if (strstr(kind, "sequences") && __rseq_size == 0) exit(2);
  if (strstr(kind, "listed") && !strstr(kind, "some")) allow_listed();
  pthread_t threads[4], queuer, self = pthread_self();
  int started = 0;
  const char* call = strstr(kind, "in=");
  if (call || strstr(kind, "threads"))
    for (; started < 4; ++started)
      pthread_create(&threads[started], NULL, come_by, (void*)(long)started);
  if (strstr(kind, "handlers")) {
    set_handlers();
    pthread_create(&queuer, NULL, queue_signals, &self);
  }
  printf("ready\n");
  fflush(stdout);
  if (call) {
    wait_over_and_over(call + 3);
  } else if (strstr(kind, "starts")) {
    while (!is_over && now() < until) {
      pthread_t once[3];
      for (int i = 0; i < 3; ++i) pthread_create(&once[i], NULL, come_by, (void*)(long)(10 + i));
      for (int i = 0; i < 3; ++i) pthread_join(once[i], NULL);
    }
  } else {
    come_by((void*)9);
  }
  is_over = 1;
  for (int i = 0; i < started; ++i) pthread_join(threads[i], NULL);
  if (strstr(kind, "handlers")) {
    pthread_join(queuer, NULL);
    const double late = now() + 5;
    while (received < sent && now() < late) usleep(1000);
    expect("queued signals", 0, (uint64_t)received, (uint64_t)sent);
    check_canary();
  }
  uint64_t all = 0;
  for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); ++i) all += counts[i];
  expect("counts of all processors", 0, all, (uint64_t)counted);
  printf("passed %ld failures %ld interrupted %ld\n", passed, failures, interrupted);
  return failures != 0;
}
