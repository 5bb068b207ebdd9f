/* System calls at random, right ones and wrong ones, by threads that come and go, with children,
 * programs, signals and calls of 32 bits in between: SEED THREADS ROUNDS FOLDER. Says and waits for
 * lines as system_job does. What it draws follows from SEED; what it gets does not need to. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define OPEN_FILES 16

struct drawer {
  unsigned state;
  int depth;  /* of processes and threads around it */
  pid_t gone; /* a child that ended by itself; its number is free; 0 = none */
  int files[OPEN_FILES];
  char buffer[8192];
};

static const char* folder;

static unsigned below(struct drawer* drawer, unsigned limit) {
  drawer->state = drawer->state * 1664525u + 1013904223u;
  return (drawer->state >> 8) % limit;
}

/* One of its own, or none that is open. */
static int* a_file(struct drawer* drawer) { return &drawer->files[below(drawer, OPEN_FILES)]; }

static void* an_address(struct drawer* drawer) {
  switch (below(drawer, 12)) {
    case 0:
      return NULL;
    case 1:
      return (void*)0xdead0000;
    default:
      return drawer->buffer + below(drawer, 4096);
  }
}

static const char* a_path(struct drawer* drawer, char* text, size_t bytes) {
  switch (below(drawer, 10)) {
    case 0:
      return NULL;
    case 1:
      return "/does/not/exist";
    case 2:
      return "";
    case 3: { /* longer than what is told of it */
      memset(text, 'n', 1000);
      text[1000] = 0;
      return text;
    }
    case 4:
      return "/dev/zero";
    default:
      snprintf(text, bytes, "%s/random_%u", folder, below(drawer, 6));
      return text;
  }
}

static void keep(struct drawer* drawer, long fd) {
  int* place = a_file(drawer);

  if (fd < 0) return;
  if (*place >= 0) close(*place);
  *place = (int)fd;
}

static void file_call(struct drawer* drawer) {
  static const int kOpenFlags[] = {
      O_RDONLY, O_RDWR | O_CREAT,          O_WRONLY | O_CREAT | O_TRUNC,
      O_PATH,   O_RDWR | O_CREAT | O_EXCL, O_RDONLY | O_DIRECTORY};
  char text[1024], other[1024];
  const char* path = a_path(drawer, text, sizeof(text));
  const int fd = *a_file(drawer), second = *a_file(drawer);
  const size_t bytes = below(drawer, 4096);
  struct iovec parts[2] = {{an_address(drawer), bytes}, {drawer->buffer, 5}};
  struct open_how how = {.flags = O_RDWR | O_CREAT, .mode = 0600};
  loff_t offset = below(drawer, 100);

  switch (below(drawer, 26)) {
    case 0:
    case 1:
    case 2:
      keep(drawer,
           syscall(SYS_openat, AT_FDCWD, path, kOpenFlags[below(drawer, 6)] | O_NONBLOCK, 0644));
      break;
    case 3:
      keep(drawer, syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how)));
      break;
    case 4:
    case 5: {
      int* place = a_file(drawer);

      syscall(SYS_close, *place);
      *place = -1;
      break;
    }
    case 6:
    case 7:
      syscall(SYS_read, fd, an_address(drawer), bytes);
      break;
    case 8:
    case 9:
      syscall(SYS_write, fd, an_address(drawer), bytes);
      break;
    case 10:
      syscall(SYS_pread64, fd, an_address(drawer), bytes, offset);
      break;
    case 11:
      syscall(SYS_pwrite64, fd, an_address(drawer), bytes, offset);
      break;
    case 12:
      syscall(SYS_readv, fd, parts, 2);
      break;
    case 13:
      syscall(SYS_pwritev, fd, parts, 2, offset, 0);
      break;
    case 14:
      syscall(SYS_lseek, fd, offset, below(drawer, 6));
      break;
    case 15:
      syscall(SYS_newfstatat, AT_FDCWD, path, drawer->buffer, 0);
      break;
    case 16:
      syscall(SYS_fstat, fd, an_address(drawer));
      break;
    case 17:
      syscall(SYS_sendfile, fd, second, below(drawer, 2) ? &offset : NULL, bytes);
      break;
    case 18:
      syscall(SYS_copy_file_range, fd, NULL, second, NULL, bytes, 0);
      break;
    case 19:
      syscall(SYS_splice, fd, NULL, second, NULL, bytes, SPLICE_F_NONBLOCK);
      break;
    case 20:
      syscall(SYS_rename, path, a_path(drawer, other, sizeof(other)));
      break;
    case 21:
      syscall(SYS_symlink, path, a_path(drawer, other, sizeof(other)));
      break;
    case 22:
      if (path != NULL && path[0] != 0 && strncmp(path, "/dev", 4) != 0) unlink(path);
      break;
    case 23:
      syscall(SYS_getdents64, fd, drawer->buffer, sizeof(drawer->buffer));
      break;
    case 24:
      keep(drawer, syscall(SYS_dup, fd));
      break;
    default:
      syscall(SYS_fcntl, fd, F_GETFL, 0);
      syscall(SYS_ftruncate, fd, offset);
  }
}

static void pair_call(struct drawer* drawer) {
  const int fd = *a_file(drawer);
  struct msghdr message = {.msg_iov = &(struct iovec){drawer->buffer, 64}, .msg_iovlen = 1};
  struct pollfd polled[2] = {{fd, POLLIN, 0}, {*a_file(drawer), POLLOUT, 0}};
  struct epoll_event event = {.events = EPOLLIN};
  int pair[2];

  switch (below(drawer, 11)) {
    case 0:
      if (pipe2(pair, O_NONBLOCK) == 0) {
        keep(drawer, pair[0]);
        keep(drawer, pair[1]);
      }
      break;
    case 1:
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0) {
        keep(drawer, pair[0]);
        keep(drawer, pair[1]);
      }
      break;
    case 2:
      syscall(SYS_sendto, fd, an_address(drawer), 40, MSG_NOSIGNAL | MSG_DONTWAIT, NULL, 0);
      break;
    case 3:
      syscall(SYS_recvfrom, fd, an_address(drawer), 30, MSG_DONTWAIT, NULL, NULL);
      break;
    case 4:
      syscall(SYS_sendmsg, fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
      break;
    case 5:
      syscall(SYS_recvmsg, fd, below(drawer, 5) ? &message : NULL, MSG_DONTWAIT);
      break;
    case 6:
      syscall(SYS_poll, polled, 2, below(drawer, 2));
      break;
    case 7:
      keep(drawer, syscall(SYS_eventfd2, below(drawer, 3), O_NONBLOCK));
      break;
    case 8:
      keep(drawer, syscall(SYS_epoll_create1, 0));
      break;
    case 9:
      syscall(SYS_epoll_ctl, fd, EPOLL_CTL_ADD, *a_file(drawer), &event);
      break;
    default:
      syscall(SYS_epoll_wait, fd, &event, 1, below(drawer, 2));
  }
}

static void other_call(struct drawer* drawer) {
  static const int kNumbers[] = {SYS_getpid, SYS_gettid, SYS_getppid, SYS_sched_yield, SYS_getuid};
  const struct timespec soon = {0, below(drawer, 100000)}, wrong = {0, -1};
  unsigned word = below(drawer, 2);
  void* memory;

  switch (below(drawer, 9)) {
    case 0:
    case 1:
      syscall(kNumbers[below(drawer, 5)]);
      break;
    case 2:
      syscall(SYS_nanosleep, below(drawer, 8) ? &soon : &wrong, NULL);
      break;
    case 3:
      syscall(SYS_futex, &word, FUTEX_WAIT, below(drawer, 2), &soon, NULL, 0);
      break;
    case 4:
      syscall(SYS_futex, an_address(drawer), FUTEX_WAKE, 1, NULL, NULL, 0);
      break;
    case 5:
      memory =
          mmap(NULL, 4096 * (1 + below(drawer, 9)), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      syscall(SYS_madvise, memory, 4096, below(drawer, 30));
      munmap(memory, 4096);
      break;
    case 6:
      syscall(500 + below(drawer, 12), 1, 2, 3, 4, 5, 6);
      break;
    case 7: { /* by int 0x80: write to no file, getpid */
      long result = below(drawer, 2) ? 4 : 20;

      __asm__ volatile("int $0x80" : "+a"(result) : "b"(-1L), "c"(0L), "d"(5L) : "memory");
      break;
    }
    default:
      syscall(SYS_getrandom, an_address(drawer), below(drawer, 300), 0);
  }
}

static void some_calls(struct drawer* drawer, int count);

static void begin_drawer(struct drawer* drawer, const struct drawer* parent, unsigned seed) {
  memset(drawer->files, -1, sizeof(drawer->files));
  drawer->state = seed;
  drawer->depth = parent == NULL ? 0 : parent->depth + 1;
  drawer->gone = 0;
}

struct start {
  const struct drawer* parent;
  unsigned seed;
  int count;
};

static void* calls_of_thread(void* argument) {
  const struct start start = *(struct start*)argument;
  struct drawer* drawer = malloc(sizeof(*drawer));

  begin_drawer(drawer, start.parent, start.seed);
  some_calls(drawer, start.count);
  for (int i = 0; i < OPEN_FILES; ++i) {
    if (drawer->files[i] >= 0) close(drawer->files[i]);
  }
  free(drawer);
  return NULL;
}

static void* block(void* argument) {
  char byte;

  (void)!read((int)(intptr_t)argument, &byte, 1);
  return NULL;
}

/* Only what may be called in the child of a process with threads. */
static void run_child(struct drawer* drawer) {
  struct drawer* own = drawer; /* its copy */
  const unsigned end = below(drawer, 4);
  pthread_t thread;
  int pair[2];

  own->depth += 2;
  some_calls(own, 1 + (int)below(own, 12));
  if (end == 0 && pipe(pair) == 0) {
    pthread_create(&thread, NULL, block, (void*)(intptr_t)pair[0]);
    syscall(SYS_exit_group, 3);
  }
  if (end == 1) syscall(SYS_kill, getpid(), SIGKILL);
  if (end == 2) execl("/bin/true", "true", NULL);
  _exit(4);
}

/* A child with a number that another one had. */
static void reuse_number(struct drawer* drawer) {
  const pid_t number = drawer->gone;
  struct clone_args clone = {
      .exit_signal = SIGCHLD, .set_tid = (unsigned long)&number, .set_tid_size = 1};
  long child;

  drawer->gone = 0;
  if (number == 0) return;
  child = syscall(SYS_clone3, &clone, sizeof(clone));
  if (child == 0) {
    drawer->depth += 2;
    some_calls(drawer, 1 + (int)below(drawer, 12));
    _exit(4);
  }
  if (child > 0) waitpid((pid_t)child, NULL, 0);
}

static void family_call(struct drawer* drawer) {
  const struct itimerval soon = {{0, 0}, {0, 1 + below(drawer, 900)}};
  struct start start = {drawer, below(drawer, 1u << 20), 1 + (int)below(drawer, 20)};
  pthread_t thread;
  pid_t child;
  int status;

  switch (below(drawer, 5)) {
    case 0:
      if (pthread_create(&thread, NULL, calls_of_thread, &start) == 0) pthread_join(thread, NULL);
      break;
    case 1:
      child = fork();
      if (child == 0) run_child(drawer);
      if (waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 4)
        drawer->gone = child;
      break;
    case 2:
      child = vfork();
      if (child == 0) {
        execl(below(drawer, 3) ? "/bin/true" : "/does/not/exist", "true", NULL);
        _exit(6);
      }
      waitpid(child, NULL, 0);
      break;
    case 3:
      reuse_number(drawer);
      break;
    default:
      /* To any of the threads. */
      setitimer(ITIMER_REAL, &soon, NULL);
  }
}

static void some_calls(struct drawer* drawer, int count) {
  for (int i = 0; i < count; ++i) {
    const unsigned kind = below(drawer, 100);

    if (kind < 55)
      file_call(drawer);
    else if (kind < 75)
      pair_call(drawer);
    else if (kind < 95 || drawer->depth >= 2)
      other_call(drawer);
    else
      family_call(drawer);
  }
}

static void on_signal(int number) { (void)number; }

static void wait_for_line(const char* said) {
  char line[64];

  printf("%s %d\n", said, getpid());
  fflush(stdout);
  if (read(0, line, sizeof(line)) <= 0) _exit(3);
}

int main(int argc, char** argv) {
  struct sigaction action = {.sa_handler = on_signal};
  pthread_t threads[64];
  struct start starts[64];
  const struct itimerval never = {0};
  unsigned seed;
  int count;

  if (argc < 5) return 2;
  seed = (unsigned)strtoul(argv[1], NULL, 10);
  count = atoi(argv[2]) % 64;
  folder = argv[4];
  action.sa_flags = seed % 2 ? SA_RESTART : 0;
  sigaction(SIGALRM, &action, NULL);
  signal(SIGPIPE, SIG_IGN);
  wait_for_line("READY");
  for (int i = 0; i < count; ++i) {
    starts[i] = (struct start){NULL, seed * 64 + i, atoi(argv[3])};
    pthread_create(&threads[i], NULL, calls_of_thread, &starts[i]);
  }
  for (int i = 0; i < count; ++i) pthread_join(threads[i], NULL);
  setitimer(ITIMER_REAL, &never, NULL);
  wait_for_line("DONE");
  return 0;
}
