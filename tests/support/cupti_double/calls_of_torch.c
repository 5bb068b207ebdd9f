/* What torch links, too: where the stand-in is preloaded, it takes the real library's place. */
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_result.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                          uint64_t id) {
  (void)kind, (void)id;
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                         uint64_t* id) {
  (void)kind;
  if (id) *id = 0;
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
