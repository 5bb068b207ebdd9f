/* Buffers of the stand-in for CUPTI: asked for, filled, completed, flushed and read. */
#include <cupti_activity.h>
#include <cupti_result.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/cupti_double/cupti_double.h"

#define EXPORT __attribute__((visibility("default")))
#define MOST_HELD 8192
#define MOST_AREAS 8192
#define FIRST_WITH_ONE_A_THREAD 21 /* 12.3 */

extern struct cupti_double cupti_double;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/*
 * A buffer in use: of each thread, or, before 12.3, of all. One that is full and has work that has
 * not ended is kept until that has; so is any with hold_buffers.
 */
struct area {
  uint8_t* buffer;
  size_t bytes, used;
  uint64_t busy_until; /* by `now`: when the last of its work ends */
};
static struct area areas[MOST_AREAS], held[MOST_HELD];
static int area_count = 1, held_count;
static size_t untold_drops;

/* As the destructors of its C++ objects: registered when it is loaded. */
static int is_destroyed;
static void destroy(void) { is_destroyed = 1; }
void cupti_double_prepare(void) { atexit(destroy); }

/* When the work that a record tells of has ended; 0 = the record is no work's. */
static uint64_t end_of_work(const uint8_t* record) {
  CUpti_ActivityKind kind;

  memcpy(&kind, record, sizeof(kind));
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return ((const CUpti_ActivityKernel6*)record)->end;
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return ((const CUpti_ActivityMemcpy4*)record)->end;
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return ((const CUpti_ActivityMemset3*)record)->end;
    default:
      return 0;
  }
}

/* A record of work that has not ended: without times, or one that nobody can read. */
static void spoil(uint8_t* record) {
  CUpti_ActivityKind kind;

  memcpy(&kind, record, sizeof(kind));
  if (cupti_double.incomplete_ends) {
    memset(record, 0, sizeof(kind));
  } else if (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    ((CUpti_ActivityKernel6*)record)->start = ((CUpti_ActivityKernel6*)record)->end = 0;
  } else if (kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    ((CUpti_ActivityMemcpy4*)record)->start = ((CUpti_ActivityMemcpy4*)record)->end = 0;
  } else {
    ((CUpti_ActivityMemset3*)record)->start = ((CUpti_ActivityMemset3*)record)->end = 0;
  }
}

static void hand_over(const struct area* area) {
  CUpti_BuffersCallbackCompleteFunc completed =
      (CUpti_BuffersCallbackCompleteFunc)cupti_double.completed;
  const uint64_t now = cupti_double.now();
  size_t valid = area->used, at, size;
  CUpti_ActivityKind kind;

  for (at = 0; area->busy_until > now && at < valid; at += size) {
    memcpy(&kind, area->buffer + at, sizeof(kind));
    size = cupti_double_size(kind);
    if (end_of_work(area->buffer + at) > now) spoil(area->buffer + at);
  }
  valid -= valid < cupti_double.cut ? valid : cupti_double.cut;
  completed(NULL, 0, area->buffer, area->bytes, valid);
}

/* The buffer in use is full. */
static void complete_buffer(struct area* area) {
  const int is_kept = cupti_double.hold_buffers || area->busy_until > cupti_double.now();

  if (is_kept && held_count < MOST_HELD) {
    held[held_count++] = *area;
  } else {
    hand_over(area);
  }
  area->buffer = NULL;
}

static void request_buffer(struct area* area) {
  CUpti_BuffersCallbackRequestFunc requested =
      (CUpti_BuffersCallbackRequestFunc)cupti_double.requested;
  size_t most_records = 0;

  ++cupti_double.requests;
  area->used = 0;
  area->busy_until = 0;
  requested(&area->buffer, &area->bytes, &most_records);
  if (area->buffer && cupti_double.fill && cupti_double.fill < area->bytes) {
    area->bytes = cupti_double.fill;
  }
}

/* Threads that have ended keep theirs: what is in it comes with the next flush. */
static struct area* area_of_thread(void) {
  static __thread int number;

  if (cupti_double.version < FIRST_WITH_ONE_A_THREAD) return &areas[0];
  if (!number) number = area_count < MOST_AREAS ? area_count++ : MOST_AREAS - 1;
  return &areas[number];
}

EXPORT void cupti_double_emit(const void* record, size_t bytes) {
  const uint64_t end = end_of_work(record);
  struct area* area;

  pthread_mutex_lock(&lock);
  area = area_of_thread();
  if (area->buffer && area->used + bytes > area->bytes) complete_buffer(area);
  if (!area->buffer && cupti_double.requested) request_buffer(area);
  if (area->buffer) {
    memcpy(area->buffer + area->used, record, bytes);
    area->used += bytes;
    if (end > area->busy_until) area->busy_until = end;
    ++cupti_double.emitted;
  } else {
    ++cupti_double.dropped;
    ++untold_drops;
  }
  pthread_mutex_unlock(&lock);
}

EXPORT CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc requested,
                                                  CUpti_BuffersCallbackCompleteFunc completed) {
  if (cupti_double.register_result) return (CUptiResult)cupti_double.register_result;
  pthread_mutex_lock(&lock);
  cupti_double.requested = (void*)requested;
  cupti_double.completed = (void*)completed;
  pthread_mutex_unlock(&lock);
  return CUPTI_SUCCESS;
}

/* Buffers whose work has all ended; all of them when it is forced. */
EXPORT CUptiResult cuptiActivityFlushAll(uint32_t flag) {
  uint64_t now;
  int i, kept = 0, given = held_count;

  if (!cupti_double.completed) return CUPTI_ERROR_INVALID_OPERATION;
  if (is_destroyed) return CUPTI_ERROR_UNKNOWN;
  while (*(volatile int*)&cupti_double.hang_flush == 1 ||
         (flag && *(volatile int*)&cupti_double.hang_flush == 2)) {
    usleep(1000);
  }
  pthread_mutex_lock(&lock);
  ++cupti_double.flushes;
  now = cupti_double.now();
  for (i = 0; i < area_count; ++i) {
    if (!areas[i].buffer || (!flag && areas[i].busy_until > now)) continue;
    hand_over(&areas[i]);
    areas[i].buffer = NULL;
  }
  /* The newest first. */
  while (given--) {
    if (flag || held[given].busy_until <= now) hand_over(&held[given]), held[given].buffer = NULL;
  }
  for (i = 0; i < held_count; ++i) {
    if (held[i].buffer) held[kept++] = held[i];
  }
  held_count = kept;
  pthread_mutex_unlock(&lock);
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityGetNextRecord(uint8_t* from, size_t valid,
                                              CUpti_Activity** record) {
  uint8_t* at = *record ? (uint8_t*)*record : from;
  CUpti_ActivityKind kind;

  if (*record) {
    memcpy(&kind, at, sizeof(kind));
    at += cupti_double_size(kind);
  }
  if (at + sizeof(CUpti_ActivityKind) > from + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  memcpy(&kind, at, sizeof(kind));
  if (!cupti_double_size(kind)) return CUPTI_ERROR_INVALID_KIND;
  *record = (CUpti_Activity*)at;
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream,
                                                     size_t* dropped) {
  (void)context, (void)stream;
  pthread_mutex_lock(&lock);
  *dropped = untold_drops + cupti_double.extra_drops;
  untold_drops = cupti_double.extra_drops = 0;
  pthread_mutex_unlock(&lock);
  return CUPTI_SUCCESS;
}
