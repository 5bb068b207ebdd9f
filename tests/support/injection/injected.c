// A library for injections: what its function does needs the allocator, the loader and threads.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((visibility("default"))) int injected_calls;

static void* work(void* argument) {
  free(argument);
  return NULL;
}

__attribute__((visibility("default"))) int injected(void) {
  for (int i = 1; i < 200; ++i) {
    char* memory = malloc((size_t)i * 100);
    memset(memory, i, (size_t)i * 100);
    free(memory);
  }
  pthread_t thread;
  if (pthread_create(&thread, NULL, work, malloc(1000)) != 0) return -1;
  pthread_join(thread, NULL);
  if (dlsym(RTLD_DEFAULT, "malloc") == NULL) return -2;
  return ++injected_calls;
}

// One that does not come back by itself.
__attribute__((visibility("default"))) int injected_slow(void) {
  sleep(30);
  return 0;
}
