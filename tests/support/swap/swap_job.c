/* swap_job TORCH BYSTANDER OPENS [WRITE]: has the library TORCH loaded. OPENS 0: forks children
   that have BYSTANDER mapped in its place. Otherwise it maps that itself as soon as TORCH was
   opened so many times, and TORCH again when nobody has opened it for a while. With WRITE it writes
   a byte of TORCH anew each time that somebody opens it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <unistd.h>

#define OPERATOR "_ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE"

static void MapInPlace(char* code, int file) {
  mmap(code - 4096, 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0);
  mmap(code, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, file, 4096);
}

static void ForkOthers(char* code, int other) {
  signal(SIGCHLD, SIG_IGN);
  for (;;) {
    usleep(50000);
    if (fork() == 0) {
      MapInPlace(code, other);
      sleep(1);
      _exit(0);
    }
  }
}

/* When who has opened it has looked at its times, and long before there are probes. */
static void WriteAnew(int file) {
  char byte;
  usleep(20000);
  if (pread(file, &byte, 1, 4096) != 1 || pwrite(file, &byte, 1, 4096) != 1) exit(2);
}

int main(int count, char** words) {
  if (count < 4) return 1;
  void* library = dlopen(words[1], RTLD_NOW);
  char* function = library == NULL ? NULL : dlsym(library, OPERATOR);
  const int writes = count > 4;
  const int own = open(words[1], writes ? O_RDWR : O_RDONLY);
  const int other = open(words[2], O_RDONLY);
  const int opens = atoi(words[3]);
  if (function == NULL || own < 0 || other < 0) return 1;
  char* code = (char*)((uintptr_t)function & ~(uintptr_t)4095);
  const int watch = inotify_init1(IN_CLOEXEC);
  inotify_add_watch(watch, words[1], IN_OPEN);
  printf("READY %d\n", getpid());
  fflush(stdout);
  if (opens == 0) ForkOthers(code, other);
  int seen = 0;
  int is_done = 0;
  for (;;) {
    struct pollfd ready = {watch, POLLIN, 0};
    if (poll(&ready, 1, 2000) == 0) {
      if (is_done && !writes) MapInPlace(code, own);
      seen = is_done = 0;
      continue;
    }
    char events[4096];
    const ssize_t got = read(watch, events, sizeof(events));
    for (ssize_t at = 0; at < got;) {
      struct inotify_event event;
      memcpy(&event, events + at, sizeof(event));
      at += (ssize_t)sizeof(event) + event.len;
      ++seen;
    }
    if (writes) WriteAnew(own);
    if (seen < opens || is_done) continue;
    is_done = 1;
    if (!writes) MapInPlace(code, other);
    printf("DONE after %d\n", seen);
    fflush(stdout);
  }
}
