/* What torch links, too: where the stand-in is preloaded, it takes the real library's place. */
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_result.h>
#include <string.h>

#include "tests/support/cupti_double/cupti_double.h"

extern struct cupti_double cupti_double;

#define EXPORT __attribute__((visibility("default")))

#define MOST_IDS 64
static __thread struct {
  uint64_t ids[MOST_IDS];
  unsigned count;
} pushed[CUPTI_DOUBLE_ID_KINDS];

void cupti_double_emit_external_ids(uint32_t correlation) {
  static __thread uint32_t last_correlation;
  CUpti_ActivityExternalCorrelation external;
  uint32_t kind;

  if (!(cupti_double.enabled >> CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION & 1)) return;
  if (correlation == last_correlation) return;
  last_correlation = correlation;
  memset(&external, 0, sizeof(external));
  external.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
  external.correlationId = correlation;
  for (kind = 0; kind < CUPTI_DOUBLE_ID_KINDS; ++kind) {
    external.externalKind = (CUpti_ExternalCorrelationKind)kind;
    if (!pushed[kind].count) continue;
    external.externalId = pushed[kind].ids[pushed[kind].count - 1];
    cupti_double_emit(&external, cupti_double_size(external.kind));
  }
}

EXPORT CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                          uint64_t id) {
  if ((unsigned)kind >= CUPTI_DOUBLE_ID_KINDS || pushed[kind].count == MOST_IDS) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  pushed[kind].ids[pushed[kind].count++] = id;
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                         uint64_t* id) {
  if ((unsigned)kind >= CUPTI_DOUBLE_ID_KINDS) return CUPTI_ERROR_INVALID_PARAMETER;
  if (!pushed[kind].count) return CUPTI_ERROR_QUEUE_EMPTY;
  --pushed[kind].count;
  if (id) *id = pushed[kind].ids[pushed[kind].count];
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute attribute, size_t* size,
                                             void* value) {
  (void)attribute, (void)size, (void)value;
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t enable) {
  (void)enable;
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle subscriber,
                                       CUpti_CallbackDomain domain, CUpti_CallbackId callback) {
  (void)enable, (void)subscriber, (void)domain, (void)callback;
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiEnableDomain(uint32_t enable, CUpti_SubscriberHandle subscriber,
                                     CUpti_CallbackDomain domain) {
  (void)enable, (void)subscriber, (void)domain;
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiFinalize(void) { return CUPTI_ERROR_NOT_SUPPORTED; }
