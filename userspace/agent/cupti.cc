#include "userspace/agent/cupti.h"

#include "userspace/agent/system.h"

namespace proftrace::agent {
namespace {

template <typename Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(FindFunction(library, name));
  return *function != nullptr;
}

}  // namespace

const char* FindFunctions(void* library, Cupti* cupti) {
#define PROFTRACE_NEEDS(function) \
  if (!Find(library, "cupti" #function, &cupti->function)) return "cupti" #function
  PROFTRACE_NEEDS(GetVersion);
  PROFTRACE_NEEDS(Subscribe);
  PROFTRACE_NEEDS(Unsubscribe);
  PROFTRACE_NEEDS(ActivityRegisterCallbacks);
  PROFTRACE_NEEDS(ActivityEnable);
  PROFTRACE_NEEDS(ActivityDisable);
  PROFTRACE_NEEDS(ActivityFlushAll);
  PROFTRACE_NEEDS(ActivityGetNextRecord);
  PROFTRACE_NEEDS(ActivityGetNumDroppedRecords);
  PROFTRACE_NEEDS(GetTimestamp);
  PROFTRACE_NEEDS(GetResultString);
  PROFTRACE_NEEDS(GetCallbackName);
#undef PROFTRACE_NEEDS
#define PROFTRACE_MAY_HAVE(function) Find(library, "cupti" #function, &cupti->function)
  PROFTRACE_MAY_HAVE(ActivityEnableAndDump);
  PROFTRACE_MAY_HAVE(ActivityRegisterTimestampCallback);
  PROFTRACE_MAY_HAVE(SetThreadIdType);
  PROFTRACE_MAY_HAVE(GetThreadIdType);
  PROFTRACE_MAY_HAVE(ActivityEnableDriverApi);
  PROFTRACE_MAY_HAVE(ActivityEnableRuntimeApi);
  PROFTRACE_MAY_HAVE(ActivityGetEnabledKinds);
  PROFTRACE_MAY_HAVE(ActivityGetStructSize);
#undef PROFTRACE_MAY_HAVE
  return nullptr;
}

uint32_t CudaMajorOf(uint32_t cupti_version) {
  if (cupti_version >= 130000) return cupti_version / 10000;
  return cupti_version >= 19 ? 12 : 11;
}

}  // namespace proftrace::agent
