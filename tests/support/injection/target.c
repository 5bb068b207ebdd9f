// target KIND SECONDS: a program whose threads come by safe_point() all the time, and that checks
// what it computes. Prints `ready`, and `passed N failures M` at its end: after so many seconds, or
// at SIGTERM. Kinds, any number, joined by commas:
//   threads   four threads allocate, free, compute with vectors and write files
//   signals   a timer's handler runs every 2 ms, on an alternate stack
//   forks     children are forked and wait for their end; also vfork and exec
//   idle      safe_point() is never called
//   headless  (with threads) the first thread ends at once, and another one says how it went
//   sleeps    threads sleep in poll, futex and nanosleep; the first one comes by every 10 ms
//   docker, deny, kill   a seccomp filter that allows all but what nobody asks for; that denies
//             memfd_create; that kills for it
//   late      a filter that kills for munmap comes with SIGUSR1
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile int stop, is_over;
static long passed, failures, interrupted;

// A function with the first instructions of most: it pushes, and makes room.
__attribute__((noinline, visibility("default"))) double safe_point(double a, long b, double c,
                                                                   long d, long e, long f) {
  volatile long many[8] = {b, d, e, f};
  char* memory = malloc(64 + (size_t)(b & 1023));
  memory[0] = (char)b;
  double result = a * 3 + (double)(many[0] + many[1]) + c * (double)(many[2] - many[3]);
  free(memory);
  return result;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void* work(void* argument) {
  long number = (long)argument, rounds = 0, wrong = 0;
  char path[64];
  snprintf(path, sizeof(path), "/tmp/target-%d-%ld", getpid(), number);
  FILE* file = fopen(path, "w+");
  if (file) unlink(path);
  while (!stop) {
    errno = 4711;
    double value = safe_point((double)rounds, rounds, 0.5, number, 7, 3);
    if (value != (double)rounds * 3 + (double)(rounds + number) + 0.5 * 4) ++wrong;
    if (errno != 4711) ++wrong;
    void* blocks[16];
    for (int i = 0; i < 16; ++i) blocks[i] = malloc((size_t)(rounds * 37 % 5000 + i * 1000));
    for (int i = 0; i < 16; ++i) free(blocks[i]);
    if (file && rounds % 64 == 0) {
      rewind(file);
      fprintf(file, "%ld %f\n", rounds, value);
      fflush(file);
    }
    ++rounds;
  }
  __atomic_add_fetch(&passed, rounds, __ATOMIC_RELAXED);
  __atomic_add_fetch(&failures, wrong, __ATOMIC_RELAXED);
  return NULL;
}

static void* finish(void* until) {
  while (now() < *(double*)until && !is_over) usleep(10000);
  stop = 1;
  usleep(300000);
  printf("passed %ld failures %ld interrupted %ld\n", passed, failures, interrupted);
  exit(failures != 0);
}

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

static void* sleep_in(void* argument) {
  while (!stop) {
    struct timespec wait = {0, 50000000};
    int error = 0;
    switch ((long)argument % 3) {
      case 0:
        error = poll(NULL, 0, 50) != 0;
        break;
      case 1:
        error = nanosleep(&wait, NULL) != 0;
        break;
      default:
        clock_gettime(CLOCK_REALTIME, &wait);
        wait.tv_nsec = (wait.tv_nsec + 50000000) % 1000000000;
        error = pthread_mutex_timedlock(&held, &wait) == EINTR;
    }
    if (error) __atomic_add_fetch(&interrupted, 1, __ATOMIC_RELAXED);
  }
  return NULL;
}

static void on_signal(int number) {
  volatile double spin = number;
  double until = now() + 0.0005;
  while (now() < until) spin *= 1.0001;
}

static void on_end(int number) { is_over = number; }

static void filter(int number, unsigned action) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, action),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) perror("seccomp");
}

static void on_filter(int number) {
  (void)number;
  filter(SYS_munmap, SECCOMP_RET_KILL_PROCESS);
}

int main(int count, char** arguments) {
  const char* kind = count > 1 ? arguments[1] : "";
  static double until;
  until = now() + (count > 2 ? atof(arguments[2]) : 5);
  struct sigaction end = {.sa_handler = on_end, .sa_flags = SA_RESTART};
  sigaction(SIGTERM, &end, NULL);
  if (strstr(kind, "docker")) filter(SYS_kexec_load, SECCOMP_RET_ERRNO | EPERM);
  if (strstr(kind, "deny")) filter(SYS_memfd_create, SECCOMP_RET_ERRNO | EPERM);
  if (strstr(kind, "kill")) filter(SYS_memfd_create, SECCOMP_RET_KILL_PROCESS);
  if (strstr(kind, "late")) signal(SIGUSR1, on_filter);
  if (strstr(kind, "signals")) {
    static char stack[1 << 16];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof(stack)};
    sigaltstack(&alternate, NULL);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART | SA_ONSTACK};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval timer = {{0, 2000}, {0, 2000}};
    setitimer(ITIMER_REAL, &timer, NULL);
  }
  pthread_t threads[8];
  int started = 0;
  if (strstr(kind, "threads"))
    for (; started < 4; ++started)
      pthread_create(&threads[started], NULL, work, (void*)(long)started);
  if (strstr(kind, "sleeps")) {
    pthread_mutex_lock(&held);
    for (; started < 6; ++started)
      pthread_create(&threads[started], NULL, sleep_in, (void*)(long)started);
  }
  printf("ready\n");
  fflush(stdout);
  if (strstr(kind, "headless")) {
    pthread_t last;
    pthread_create(&last, NULL, finish, &until);
    pthread_exit(NULL);
  }
  long rounds = 0;
  while (now() < until && !is_over) {
    if (strstr(kind, "forks")) {
      int status = 0;
      pid_t child = fork();
      if (child == 0) {
        double value = safe_point(1, 2, 3, 4, 5, 6);
        _exit(value == 3 + 6 - 3 ? 0 : 1);
      }
      if (waitpid(child, &status, 0) != child || status != 0)
        __atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED);
      if (rounds % 16 == 0 && system("exit 3") != 3 << 8)
        __atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED);
    }
    if (strstr(kind, "idle") || strstr(kind, "sleeps")) {
      struct timespec wait = {0, 10000000};
      while (nanosleep(&wait, &wait) != 0)
        ;
    }
    if (!strstr(kind, "idle") &&
        safe_point((double)rounds, 1, 2, 3, 4, 5) != (double)rounds * 3 + 4 - 2)
      __atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED);
    ++rounds;
  }
  stop = 1;
  for (int i = 0; i < started; ++i) pthread_join(threads[i], NULL);
  printf("passed %ld failures %ld interrupted %ld\n", passed + rounds, failures, interrupted);
  return failures != 0;
}
