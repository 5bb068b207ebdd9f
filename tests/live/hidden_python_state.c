/* Preloaded into a job: what threads keep by keys without destructor, as Python keeps its
 * PyThreadState, is kept in another form. So the place where a jump would find it is not found. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>

#define MOST_KEYS 1024
static const uintptr_t kForm = 0x5555;
static unsigned char is_plain[MOST_KEYS]; /* it has no destructor, which would get the other form */

int pthread_key_create(pthread_key_t* key, void (*destructor)(void*)) {
  int (*next)(pthread_key_t*, void (*)(void*)) = dlsym(RTLD_NEXT, "pthread_key_create");
  const int failed = next(key, destructor);
  if (!failed && *key < MOST_KEYS) is_plain[*key] = destructor == NULL;
  return failed;
}

int pthread_setspecific(pthread_key_t key, const void* value) {
  int (*next)(pthread_key_t, const void*) = dlsym(RTLD_NEXT, "pthread_setspecific");
  if (key < MOST_KEYS && is_plain[key] && value) value = (const void*)((uintptr_t)value ^ kForm);
  return next(key, value);
}

void* pthread_getspecific(pthread_key_t key) {
  void* (*next)(pthread_key_t) = dlsym(RTLD_NEXT, "pthread_getspecific");
  void* value = next(key);
  if (key < MOST_KEYS && is_plain[key] && value) value = (void*)((uintptr_t)value ^ kForm);
  return value;
}
