/* Makes system calls of every kind, the same ones each time for the same arguments: MODE THREADS
 * ROUNDS FOLDER. It says READY, waits for a line, works, says DONE and waits for another line. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char* folder;
static int rounds;

static void wait_for_line(const char* said) {
  char line[64];

  printf("%s %d\n", said, getpid());
  fflush(stdout);
  if (read(0, line, sizeof(line)) <= 0) _exit(3);
}

static unsigned next_random(unsigned* state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

/* Files, pipes, sockets, memory, times: one of them, drawn. */
static void one_call(unsigned* state, int thread) {
  char path[256], other[256], buffer[4096];
  unsigned what = next_random(state) % 16;
  size_t bytes = next_random(state) % sizeof(buffer);
  int fd, pair[2];

  memset(buffer, thread, sizeof(buffer));
  snprintf(path, sizeof(path), "%s/file_%d", folder, thread);
  snprintf(other, sizeof(other), "%s/other_%d", folder, thread);
  switch (what) {
    case 0:
    case 1:
    case 2:
    case 3:
      fd = open(path, O_RDWR | O_CREAT, 0644);
      (void)!write(fd, buffer, bytes);
      (void)!pread(fd, buffer, bytes / 2, bytes / 4);
      lseek(fd, bytes / 2, SEEK_SET);
      (void)!read(fd, buffer, sizeof(buffer));
      close(fd);
      break;
    case 4: {
      struct stat info;

      stat(path, &info);
      stat("/does/not/exist", &info);
      break;
    }
    case 5:
      if (pipe(pair) == 0) {
        (void)!write(pair[1], buffer, bytes % 512);
        if (bytes % 512) (void)!read(pair[0], buffer, 100);
        close(pair[0]);
        close(pair[1]);
      }
      break;
    case 6:
      if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0) {
        send(pair[0], buffer, bytes % 300 + 1, 0);
        recv(pair[1], buffer, 64, 0);
        close(pair[0]);
        close(pair[1]);
      }
      break;
    case 7:
      mkdir(other, 0755);
      rmdir(other);
      break;
    case 8:
      rename(path, other);
      rename(other, path);
      break;
    case 9: {
      struct timespec time = {0, 1000};

      nanosleep(&time, NULL);
      break;
    }
    case 10:
      sched_yield();
      break;
    case 11: {
      void* at = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

      *(volatile char*)at = 1;
      munmap(at, 65536);
      break;
    }
    case 12: {
      struct iovec parts[2] = {{buffer, bytes / 2}, {buffer, 17}};

      fd = open(path, O_RDWR | O_CREAT, 0644);
      (void)!pwritev(fd, parts, 2, 11);
      fsync(fd);
      close(fd);
      break;
    }
    case 13: {
      struct epoll_event event;
      int poll = epoll_create1(0);

      fd = eventfd(0, EFD_NONBLOCK);
      epoll_ctl(poll, EPOLL_CTL_ADD, fd, &(struct epoll_event){.events = EPOLLIN});
      epoll_wait(poll, &event, 1, 0);
      (void)!read(fd, buffer, 8);
      close(fd);
      close(poll);
      break;
    }
    case 14:
      fd = open(folder, O_RDONLY | O_DIRECTORY);
      syscall(SYS_getdents64, fd, buffer, sizeof(buffer));
      fcntl(fd, F_GETFL);
      close(fd);
      break;
    case 15:
      close(-1);
      ioctl(0, FIONREAD, buffer);
      getppid();
      break;
  }
}

static void* mix(void* argument) {
  int thread = (int)(intptr_t)argument;
  unsigned state = 77u * (thread + 1);

  for (int i = 0; i < rounds; ++i) one_call(&state, thread);
  return NULL;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static long turn;
static int thread_count;

/* Threads take turns. */
static void* futexes(void* argument) {
  int thread = (int)(intptr_t)argument;

  for (int i = 0; i < rounds; ++i) {
    pthread_mutex_lock(&mutex);
    while (turn % thread_count != thread) pthread_cond_wait(&turned, &mutex);
    ++turn;
    pthread_cond_broadcast(&turned);
    pthread_mutex_unlock(&mutex);
  }
  return NULL;
}

static void uring(void) {
  struct io_uring_params params = {0};
  int ring = (int)syscall(SYS_io_uring_setup, 8, &params);
  char path[256], buffer[4096] = "uring";
  unsigned *tail, *mask, *indices, *head, *completed, *completed_mask;
  struct io_uring_sqe* entries;
  struct io_uring_cqe* results;
  char *queue, *completions;
  long moved = 0;
  int fd;

  if (ring < 0) {
    printf("NO_URING %d\n", errno);
    return;
  }
  queue = mmap(NULL, params.sq_off.array + params.sq_entries * 4, PROT_READ | PROT_WRITE,
               MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
  completions = mmap(NULL, params.cq_off.cqes + params.cq_entries * sizeof(*results),
                     PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_CQ_RING);
  entries = mmap(NULL, params.sq_entries * sizeof(*entries), PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
  tail = (unsigned*)(queue + params.sq_off.tail);
  mask = (unsigned*)(queue + params.sq_off.ring_mask);
  indices = (unsigned*)(queue + params.sq_off.array);
  head = (unsigned*)(completions + params.cq_off.head);
  completed = (unsigned*)(completions + params.cq_off.tail);
  completed_mask = (unsigned*)(completions + params.cq_off.ring_mask);
  results = (struct io_uring_cqe*)(completions + params.cq_off.cqes);
  snprintf(path, sizeof(path), "%s/uring", folder);
  fd = open(path, O_RDWR | O_CREAT, 0644);
  for (int i = 0; i < rounds; ++i) {
    unsigned at = *tail & *mask;

    memset(&entries[at], 0, sizeof(*entries));
    entries[at].opcode = i % 2 ? IORING_OP_READ : IORING_OP_WRITE;
    entries[at].fd = fd;
    entries[at].addr = (unsigned long)buffer;
    entries[at].len = 512 + i % 100;
    entries[at].off = (i / 2) * 16;
    entries[at].user_data = 1000 + i;
    indices[at] = at;
    atomic_store_explicit((_Atomic unsigned*)tail, *tail + 1, memory_order_release);
    syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0);
    while (*head != atomic_load((_Atomic unsigned*)completed)) {
      moved += results[*head & *completed_mask].res;
      atomic_store((_Atomic unsigned*)head, *head + 1);
    }
  }
  close(fd);
  close(ring);
  printf("MOVED %ld\n", moved);
}

static void* exec_from_thread(void* argument) {
  execl("/bin/sh", "sh", "-c", "echo DONE 0; read line; exit 7", NULL);
  return NULL;
}

static void* end_thread(void* argument) {
  getppid();
  return NULL;
}

static void forks(void) {
  pthread_t thread;

  for (int i = 0; i < rounds; ++i) {
    pid_t child = fork();

    if (child == 0) {
      getppid();
      _exit(i % 100);
    }
    waitpid(child, NULL, 0);
    child = vfork();
    if (child == 0) {
      execl("/bin/true", "true", NULL);
      _exit(1);
    }
    waitpid(child, NULL, 0);
    pthread_create(&thread, NULL, end_thread, NULL);
    pthread_join(thread, NULL);
  }
  pthread_create(&thread, NULL, exec_from_thread, NULL);
  pthread_join(thread, NULL);
}

static void on_signal(int number) { (void)number; }

/* Calls that signals break, with and without a restart. */
static void signals(void) {
  struct itimerval soon = {{0, 0}, {0, 3000}};
  struct sigaction action = {.sa_handler = on_signal};
  int pair[2];

  if (pipe(pair)) return;
  for (int i = 0; i < rounds; ++i) {
    struct timespec time = {0, 8000000};
    char byte;

    action.sa_flags = i % 2 ? SA_RESTART : 0;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &soon, NULL);
    nanosleep(&time, NULL);
    setitimer(ITIMER_REAL, &soon, NULL);
    if (i % 2) {
      pid_t child = fork();

      if (child == 0) {
        struct timespec wait = {0, 8000000};

        nanosleep(&wait, NULL);
        (void)!write(pair[1], "x", 1);
        _exit(0);
      }
      (void)!read(pair[0], &byte, 1); /* goes on behind the signal */
      waitpid(child, NULL, 0);
    } else {
      (void)!read(pair[0], &byte, 1); /* EINTR */
    }
    kill(getpid(), SIGUSR1);
  }
}

/* Calls of 32 bits. */
static long old_call(long number, long a, long b, long c) {
  long result;

  __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(a), "c"(b), "d"(c) : "memory");
  return result;
}

static void compat(void) {
  char* low =
      mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);

  strcpy(low, "/dev/null");
  for (int i = 0; i < rounds; ++i) {
    long fd = old_call(5, (long)low, O_RDWR, 0); /* open */

    old_call(4, fd, (long)low, 9); /* write */
    old_call(20, 0, 0, 0);         /* getpid */
    old_call(6, fd, 0, 0);         /* close */
    old_call(6, 999, 0, 0);
  }
}

static int bound_socket(int family, void* address, socklen_t* bytes) {
  int fd = socket(family, SOCK_DGRAM, 0);

  bind(fd, address, *bytes);
  getsockname(fd, address, bytes);
  return fd;
}

static void send_and_receive(int from, int to, void* address, socklen_t bytes) {
  struct sockaddr_storage sender;
  char text[16];
  struct iovec sent[3] = {{"a", 1}, {"bc", 2}, {"def", 3}}, received = {text, sizeof(text)};
  struct msghdr message = {
      .msg_name = address, .msg_namelen = bytes, .msg_iov = sent, .msg_iovlen = 3};
  struct msghdr answer = {
      .msg_name = &sender, .msg_namelen = sizeof(sender), .msg_iov = &received, .msg_iovlen = 1};

  sendmsg(from, &message, MSG_NOSIGNAL);
  recvmsg(to, &answer, MSG_DONTWAIT);
  answer.msg_name = NULL;
  answer.msg_namelen = 0;
  sendmsg(from, &message, 0);
  recvmsg(to, &answer, MSG_TRUNC);
}

/* Several messages at once, and what ioctls take. */
static void send_and_receive_many(int from, int to, void* address, socklen_t bytes, int round) {
  char texts[3][64] = {"one", "three", "eleven"};
  struct iovec parts[3];
  struct mmsghdr messages[3] = {0};
  int pair[2], number = 1;

  for (int i = 0; i < 3; ++i) {
    parts[i] = (struct iovec){texts[i], 3 + round + 8 * i};
    messages[i].msg_hdr = (struct msghdr){
        .msg_name = address, .msg_namelen = bytes, .msg_iov = &parts[i], .msg_iovlen = 1};
  }
  sendmmsg(from, messages, 3, 0);
  ioctl(to, FIONREAD, &number);
  for (int i = 0; i < 3; ++i) {
    parts[i].iov_len = 16;
    messages[i].msg_hdr.msg_name = NULL;
    messages[i].msg_hdr.msg_namelen = 0;
  }
  recvmmsg(to, messages, 3, MSG_DONTWAIT, NULL);
  recvmmsg(to, messages, 3, MSG_DONTWAIT, NULL);
  sendmmsg(from, NULL, 2, 0);
  if (pipe(pair) != 0) return;
  (void)!write(pair[1], texts, 5 + round);
  ioctl(pair[0], FIONREAD, &number);
  ioctl(pair[0], FIONBIO, &number);
  ioctl(pair[0], TIOCGWINSZ, texts);
  ioctl(pair[0], FIONREAD, NULL);
  ioctl(pair[0], _IOC(_IOC_READ | _IOC_WRITE, 'F', 0x2a, 0x20), texts);
  close(pair[0]);
  close(pair[1]);
}
/* Calls whose arguments point to structures and to texts. */
static void structures(void) {
  struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
  struct sockaddr_un own = {.sun_family = AF_UNIX}, peer = {.sun_family = AF_UNIX};
  char* low =
      mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
  socklen_t in_bytes = sizeof(in), in6_bytes = sizeof(in6);
  socklen_t own_bytes = sizeof(own), peer_bytes = sizeof(peer);
  int sockets[4];
  char path[256], link[256];

  snprintf(path, sizeof(path), "%s/opened", folder);
  snprintf(link, sizeof(link), "%s/link", folder);
  snprintf(own.sun_path, sizeof(own.sun_path), "%s/own", folder);
  snprintf(peer.sun_path, sizeof(peer.sun_path), "%s/peer", folder);
  sockets[0] = bound_socket(AF_INET, &in, &in_bytes);
  sockets[1] = bound_socket(AF_INET6, &in6, &in6_bytes);
  sockets[2] = bound_socket(AF_UNIX, &own, &own_bytes);
  sockets[3] = bound_socket(AF_UNIX, &peer, &peer_bytes);
  for (int i = 0; i < rounds; ++i) {
    struct open_how how = {.flags = O_CREAT | O_RDWR | O_CLOEXEC, .mode = 0640};
    struct clone_args clone = {.flags = CLONE_PARENT_SETTID | CLONE_FS,
                               .parent_tid = (unsigned long)&low[128],
                               .exit_signal = SIGCHLD};
    pthread_t thread;

    close((int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how)));
    how = (struct open_how){.flags = O_PATH, .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_IN_ROOT};
    syscall(SYS_openat2, AT_FDCWD, "missing", &how, sizeof(how));
    syscall(SYS_openat2, AT_FDCWD, "missing", &how, 8);
    syscall(SYS_openat2, AT_FDCWD, "missing", NULL, sizeof(how));
    if (syscall(SYS_clone3, &clone, sizeof(clone)) == 0) _exit(0);
    wait(NULL);
    syscall(SYS_clone3, &clone, 8);
    pthread_create(&thread, NULL, end_thread, NULL);
    pthread_join(thread, NULL);
    (void)!symlink("../else\"where", link);
    unlink(link);
    (void)!symlinkat("target", AT_FDCWD, link);
    (void)!symlinkat("again", AT_FDCWD, link);
    unlink(link);
    send_and_receive(sockets[0], sockets[0], &in, in_bytes);
    send_and_receive(sockets[1], sockets[1], &in6, in6_bytes);
    send_and_receive(sockets[2], sockets[3], &peer, peer_bytes);
    send_and_receive_many(sockets[0], sockets[0], &in, in_bytes, i);
    sendmsg(sockets[0], NULL, 0);
  }
}

static int most_pids(void) {
  FILE* file = fopen("/proc/sys/kernel/pid_max", "r");
  int most = 0;

  if (file == NULL || fscanf(file, "%d", &most) != 1) _exit(4);
  fclose(file);
  return most;
}

/* A child whose pid is that of `other` but for a multiple of 8192, as far as one is free. */
static pid_t fork_beside(pid_t other) {
  const int most = most_pids();

  for (pid_t pid = other % 8192; pid < most; pid += 8192) {
    struct clone_args clone = {
        .exit_signal = SIGCHLD, .set_tid = (unsigned long)&pid, .set_tid_size = 1};
    long child;

    if (pid < 300 || pid == other) continue;
    child = syscall(SYS_clone3, &clone, sizeof(clone));
    if (child >= 0) return child;
  }
  _exit(5);
}

/* Processes with pids that are alike in their lower bits. The first of them ends before the second
 * is half done; a third one comes then. */
static void alike(void) {
  pid_t first;
  int held[2], done[2];
  char byte;

  if (pipe(held) || pipe(done)) return;
  first = fork();
  if (first == 0) {
    pid_t own = (pid_t)syscall(SYS_getpid);

    if (fork_beside(own) == 0) {
      for (int i = 0; i < rounds; ++i) syscall(SYS_getppid);
      (void)!write(done[1], "x", 1);
      (void)!read(held[0], &byte, 1);
      for (int i = 0; i < rounds; ++i) syscall(SYS_getppid);
      _exit(0);
    }
    (void)!read(done[0], &byte, 1);
    for (int i = 0; i < rounds; ++i) syscall(SYS_getppid);
    _exit(0);
  }
  waitpid(first, NULL, 0);
  if (fork_beside(first) == 0) {
    for (int i = 0; i < rounds; ++i) syscall(SYS_getppid);
    (void)!write(held[1], "x", 1);
    _exit(0);
  }
  close(done[1]);
  wait(NULL);
  /* The second one's end. */
  (void)!read(done[0], &byte, 1);
}

static void* block(void* argument) {
  char byte;

  (void)!read((int)(intptr_t)argument, &byte, 1);
  return NULL;
}

/* Ends with calls open. */
static void end_in_calls(void) {
  pthread_t thread;
  int pair[2];

  if (pipe(pair)) return;
  for (int i = 0; i < thread_count; ++i)
    pthread_create(&thread, NULL, block, (void*)(intptr_t)pair[0]);
  usleep(200000);
  printf("DONE 0\n");
  fflush(stdout);
  usleep(100000);
  syscall(SYS_exit_group, 5);
}

/* As many calls as there can be. */
static void* storm(void* argument) {
  for (long i = 0; i < rounds * 1000L; ++i) syscall(SYS_getppid);
  return argument;
}

// Nothing but arithmetic.
static void* compute(void* argument) {
  volatile unsigned long sum = (unsigned long)argument;
  for (long i = 0; i < rounds * 1000000L; ++i) sum += (unsigned long)i ^ (sum >> 3);
  return argument;
}

static void run_threads(void* (*body)(void*)) {
  pthread_t* threads = calloc(thread_count, sizeof(*threads));

  for (int i = 0; i < thread_count; ++i)
    pthread_create(&threads[i], NULL, body, (void*)(intptr_t)i);
  for (int i = 0; i < thread_count; ++i) pthread_join(threads[i], NULL);
  free(threads);
}

int main(int argc, char** argv) {
  const char* mode = argc > 4 ? argv[1] : "";
  struct timespec begin, end;

  if (argc < 5) return 2;
  thread_count = atoi(argv[2]);
  rounds = atoi(argv[3]);
  folder = argv[4];
  signal(SIGUSR1, on_signal);
  wait_for_line("READY");
  clock_gettime(CLOCK_MONOTONIC, &begin);
  if (!strcmp(mode, "mix"))
    run_threads(mix);
  else if (!strcmp(mode, "futex"))
    run_threads(futexes);
  else if (!strcmp(mode, "storm"))
    run_threads(storm);
  else if (!strcmp(mode, "compute"))
    run_threads(compute);
  else if (!strcmp(mode, "uring"))
    uring();
  else if (!strcmp(mode, "forks"))
    forks();
  else if (!strcmp(mode, "signals"))
    signals();
  else if (!strcmp(mode, "compat"))
    compat();
  else if (!strcmp(mode, "structures"))
    structures();
  else if (!strcmp(mode, "alike"))
    alike();
  else if (!strcmp(mode, "end_in_calls"))
    end_in_calls();
  else
    return 2;
  clock_gettime(CLOCK_MONOTONIC, &end);
  printf("TOOK %ld %ld\n", (end.tv_sec - begin.tv_sec) * 1000000000L + end.tv_nsec - begin.tv_nsec,
         clock() * (1000000000L / CLOCKS_PER_SEC));
  wait_for_line("DONE");
  return 0;
}
