/* What tests tell the stand-in for CUPTI: found with dlsym, as everything of it. */
#ifndef PROFTRACE_TESTS_SUPPORT_CUPTI_DOUBLE_CUPTI_DOUBLE_H
#define PROFTRACE_TESTS_SUPPORT_CUPTI_DOUBLE_CUPTI_DOUBLE_H

#include <stddef.h>
#include <stdint.h>

/*
 * The variable `cupti_double` of the library. It begins with what the environment says: each field
 * by its name, CUPTI_DOUBLE="version=28,hang_flush=1".
 */
struct cupti_double {
  uint32_t version;           /* of cuptiGetVersion; records are as long as there */
  int subscribe_result;       /* of cuptiSubscribe */
  int register_result;        /* of cuptiActivityRegisterCallbacks */
  int timestamp_result;       /* of cuptiActivityRegisterTimestampCallback */
  int thread_id_result;       /* of cuptiSetThreadIdType */
  uint64_t refused_kinds;     /* a bit for each kind that cannot be enabled */
  uint32_t enabled_elsewhere; /* so many kinds, of another user */
  int hang_flush;             /* flushes do not return while set; 2 = forced ones only */
  int hold_buffers;           /* full buffers are handed over at a flush only, the newest first */
  size_t fill;                /* bytes of a buffer that are used, 0 = all */
  size_t cut;                 /* of each buffer's valid size: its last record is not whole */
  size_t extra_drops;         /* that cuptiActivityGetNumDroppedRecords tells once */
  int incomplete_ends;        /* records of unended work end a buffer; else they have no times */
  /* Told to the test. */
  uint64_t emitted;           /* records that were put into buffers */
  uint64_t dropped;           /* that found no buffer */
  uint64_t requests;          /* of buffers */
  uint64_t counts_of_devices; /* records of cuDeviceGetCount, with which the agent asks */
  uint64_t flushes;
  uint64_t enabled; /* a bit for each kind */
  uint32_t subscriptions;
  uint32_t thread_id_type;
  uint8_t driver_calls_off[1024]; /* by callback id; all on when their kind is enabled */
  void* requested;                /* the callbacks that are registered */
  void* completed;
  uint64_t (*now)(void);
};

/* Puts a record into a buffer, whether its kind is enabled or not. */
__attribute__((visibility("default"))) void cupti_double_emit(const void* record, size_t bytes);

/* To be called when it is loaded. */
void cupti_double_prepare(void);

/* How long a record of the kind is in the version; 0 = it has none. */
size_t cupti_double_size(unsigned kind);

/*
 * As CUPTI's: with each call of a thread that has pushed ids, one record for each kind of id,
 * before all others of the call.
 */
#define CUPTI_DOUBLE_ID_KINDS 8
void cupti_double_emit_external_ids(uint32_t correlation);

/* Puts in the overheads of this thread that loading code takes, now. */
__attribute__((visibility("default"))) void cupti_double_emit_overheads(void);

/*
 * Puts in a record of each kind (every_kind.c), with calls of this thread from `start` on, a
 * millisecond in all, and the ids from `correlation` on.
 */
__attribute__((visibility("default"))) void cupti_double_emit_every_kind(uint64_t start,
                                                                         uint32_t correlation);

#endif
