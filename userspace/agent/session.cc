#include "userspace/agent/session.h"

#include <string.h>

#include "userspace/agent/system.h"

namespace proftrace::agent {
namespace {

struct Kind {
  uint32_t number;
  const char* name;
  bool is_dumped;  // earlier activity is recorded as well, if CUPTI can dump it
  bool is_shared;  // Kineto (torch.profiler) uses the kind, too, and turns it off when it is done
};

// GRAPH_TRACE is left out, because with it the kernels of a CUDA graph have no records of their
// own. Kineto uses SYNCHRONIZATION only when it is told to, and does not turn it off otherwise, so
// the kind does not count as shared.
constexpr Kind kKinds[] = {
    {kActivityDevice, "devices", true, false},
    {kActivityContext, "contexts", true, false},
    {kActivityConcurrentKernel, "kernels", false, true},
    {kActivityMemcpy, "copies", false, true},
    {kActivityMemcpy2, "copies between devices", false, false},
    {kActivityMemset, "memsets", false, true},
    {kActivitySynchronization, "synchronization", false, false},
    {kActivityRuntime, "calls of the Runtime", false, true},
    {kActivityDriver, "calls of the Driver", false, true},
    {kActivityOverhead, "overheads", false, true},
    {kActivityMarker, "NVTX", false, false},
    {kActivityExternalCorrelation, "external ids", false, true},
    {kActivityMemory2, "allocations", false, false},
    {kActivityMemoryPool, "memory pools", false, false},
    {kActivityCudaEvent, "events", false, false},
};

// Calls of the Driver that give the GPU work or wait for it. Other calls are not recorded if CUPTI
// can leave them out (12.5 and later). They are turned off one by one, because turning single calls
// on records nothing in a process that uses CUDA already (seen with CUPTI 13.0). The next user who
// enables the kind gets all of them again. The last call is one that we make ourselves.
constexpr const char kOwnCall[] = "cuDeviceGetCount";
constexpr const char* kDriverCalls[] = {"cuLaunch",
                                        "cuGraphLaunch",
                                        "cuMemcpy",
                                        "cuMemset",
                                        "cuMemAlloc",
                                        "cuMemFree",
                                        "cuStreamSynchronize",
                                        "cuStreamWaitEvent",
                                        "cuEventSynchronize",
                                        "cuEventRecord",
                                        "cuCtxSynchr",
                                        kOwnCall};
// Calls of the Runtime that only look something up, or have no effect on the device. Kineto has no
// rows for them (CuptiActivityProfiler.cpp, isBlockListedRuntimeCbid).
constexpr const char* kUnwantedRuntimeCalls[] = {"cudaGetDevice_",
                                                 "cudaSetDevice_",
                                                 "cudaGetLastError_",
                                                 "cudaEventCreate_",
                                                 "cudaEventCreateWithFlags_",
                                                 "cudaEventDestroy_"};
constexpr uint32_t kMostCallbacks = 1024;  // 877 and 567 in CUDA 13.5

// How long the GPU has at the end to finish its work, because work has no times before it has
// ended.
constexpr uint64_t kTailLimitNs = 1'000'000'000;
constexpr uint64_t kTailPollNs = 5'000'000;
// How long the record of a call of our own is waited for. After that, so many calls are made that
// they fill whichever of our buffers they go to.
constexpr uint64_t kAnswerLimitNs = 50'000'000;
constexpr uint64_t kAnswerPollNs = 1'000'000;
constexpr size_t kCallsOfABuffer = BufferPool::kBufferBytes / sizeof(CallActivity) + 1;

bool BeginsWithOneOf(const char* name, const char* const* beginnings, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (strncmp(name, beginnings[i], strlen(beginnings[i])) == 0) return true;
  }
  return false;
}

// Calls `apply` with the number of each callback whose name begins with one of `beginnings`, or, if
// `begins` is false, of each other callback.
template <size_t kCount, typename Apply>
void ForCallbacks(const Cupti& cupti, uint32_t domain, const char* const (&beginnings)[kCount],
                  bool begins, const Apply& apply) {
  for (uint32_t callback = 1; callback < kMostCallbacks; ++callback) {
    const char* name = nullptr;
    if (cupti.GetCallbackName(domain, callback, &name) != kCuptiSuccess || name == nullptr) {
      continue;
    }
    if (BeginsWithOneOf(name, beginnings, kCount) == begins) apply(callback);
  }
}

uint32_t CallbackOf(const Cupti& cupti, const char* const (&name)[1]) {
  uint32_t found = 0;
  ForCallbacks(cupti, kDomainDriver, name, true, [&](uint32_t callback) { found = callback; });
  return found;
}

void OnSubscriberCallback(void* /*data*/, uint32_t /*domain*/, uint32_t /*callback*/,
                          const void* /*what*/) {}

template <typename Number>
void Publish(Number* place, Number value) {
  __atomic_store_n(place, value, __ATOMIC_RELAXED);
}

}  // namespace

void Session::Describe(const char* call, CuptiResult result, Failure* failure) const {
  failure->result = result;
  switch (result) {
    case kCuptiInsufficientPrivileges:
    case kCuptiVirtualizedInsufficientPrivileges:
      failure->failure = abi::PT_AGENT_NOT_PERMITTED;
      break;
    default:
      failure->failure = abi::PT_AGENT_CUPTI_ERROR;
  }
  const char* name = nullptr;
  Text text = TextIn(failure->message, sizeof(failure->message));
  Append(&text, call);
  Append(&text, " failed: ");
  if (cupti_.GetResultString(result, &name) == kCuptiSuccess && name != nullptr) {
    Append(&text, name);
  } else {
    Append(&text, "result ");
    AppendNumber(&text, static_cast<uint32_t>(result));
  }
}

// Whether another tool has CUPTI's subscription. Our own is given back at once, because Kineto
// tries to get one only once in its life, and never uses CUPTI when it gets none.
bool Session::IsTaken(Failure* failure) {
  void* subscriber = nullptr;
  const CuptiResult result = cupti_.Subscribe(&subscriber, OnSubscriberCallback, nullptr);
  if (result == kCuptiSuccess) {
    cupti_.Unsubscribe(subscriber);
    return false;
  }
  Describe("cuptiSubscribe", result, failure);
  if (result == kCuptiMultipleSubscribers || result == kCuptiMaxLimitReached) {
    failure->failure = abi::PT_AGENT_TAKEN;
    Text text = TextIn(failure->message, sizeof(failure->message));
    Append(&text,
           "another tool has CUPTI in this process (torch.profiler keeps it once it was used)");
  }
  return true;
}

bool Session::Begin(void* library, const Driver& driver, const Callbacks& callbacks,
                    Failure* failure) {
  const char* missing = FindFunctions(library, &cupti_);
  if (missing != nullptr) {
    failure->failure = abi::PT_AGENT_OLD_CUPTI;
    Text text = TextIn(failure->message, sizeof(failure->message));
    Append(&text, "this CUPTI has no ");
    Append(&text, missing);
    return false;
  }
  uint32_t version = 0;
  const CuptiResult result = cupti_.GetVersion(&version);
  if (result != kCuptiSuccess) {
    Describe("cuptiGetVersion", result, failure);
    return false;
  }
  Publish(&page_->cupti_version, version);
  if (!SizesOf(cupti_, version, &sizes_)) {
    failure->failure = abi::PT_AGENT_OLD_CUPTI;
    Text text = TextIn(failure->message, sizeof(failure->message));
    Append(&text, "the records of CUPTI's version ");
    AppendNumber(&text, version);
    Append(&text, " are not known");
    return false;
  }
  if (IsTaken(failure)) return false;
  uint32_t enabled = 0;
  if (CountEnabledKinds(&enabled) && enabled != 0) {
    failure->failure = abi::PT_AGENT_TAKEN;
    Text text = TextIn(failure->message, sizeof(failure->message));
    Append(&text, "another tool records with CUPTI in this process");
    return false;
  }

  pool_->SetNeverRefuse(version < kOldestThatTakesRefusals);
  refused_before_ = pool_->refused();
  foreign_before_ = pool_->foreign();
  make_own_call_ = driver.DeviceGetCount;
  has_thread_ids_ = cupti_.SetThreadIdType != nullptr && cupti_.GetThreadIdType != nullptr &&
                    cupti_.GetThreadIdType(&thread_id_type_) == kCuptiSuccess &&
                    cupti_.SetThreadIdType(kThreadIdTypeSystem) == kCuptiSuccess;
  clock_.Begin(&cupti_);
  const CuptiResult registered =
      cupti_.ActivityRegisterCallbacks(callbacks.requested, callbacks.completed);
  if (registered != kCuptiSuccess) {
    Describe("cuptiActivityRegisterCallbacks", registered, failure);
    Undo();
    return false;
  }
  translator_ = Translator(Translator::Sources{&cupti_, &sizes_, &clock_, &ring_, &names_, pid_,
                                               has_thread_ids_, driver.DeviceGetAttribute,
                                               CallbackOf(cupti_, {kOwnCall})});
  Look();
  if (!EnableKinds(failure)) {
    Undo();
    return false;
  }
  TurnOffUnwantedCalls();
  if (!CountEnabledKinds(&enabled_kinds_)) enabled_kinds_ = 0;
  MakeOwnCall();  // if its record comes, FindOwner() can trust its answer
  return true;
}

// Counts the kinds that are on for all users together. Returns false if CUPTI does not tell.
bool Session::CountEnabledKinds(uint32_t* count) const {
  return cupti_.ActivityGetEnabledKinds != nullptr &&
         cupti_.ActivityGetEnabledKinds(nullptr, nullptr, nullptr, count) == kCuptiSuccess;
}

// Whether another user has come and, at its end, turned off kinds that were on before.
bool Session::HasFewerKinds() const {
  uint32_t enabled = 0;
  return CountEnabledKinds(&enabled) && enabled < enabled_kinds_;
}

bool Session::EnableKinds(Failure* failure) {
  Text text = TextIn(failure->message, sizeof(failure->message));
  for (const Kind& kind : kKinds) {
    if (sizes_.bytes[kind.number] == 0) continue;
    const bool is_dumped = kind.is_dumped && cupti_.ActivityEnableAndDump != nullptr;
    const CuptiResult result =
        is_dumped ? cupti_.ActivityEnableAndDump(kind.number) : cupti_.ActivityEnable(kind.number);
    if (result == kCuptiSuccess) {
      enabled_ |= uint64_t{1} << kind.number;
      continue;
    }
    if (kind.number == kActivityConcurrentKernel) {
      Describe("cuptiActivityEnable(CONCURRENT_KERNEL)", result, failure);
      return false;
    }
    Append(&text, failure->message[0] == '\0' ? "CUPTI does not record: " : ", ");
    Append(&text, kind.name);
    failure->result = result;
  }
  return true;
}

void Session::TurnOffUnwantedCalls() {
  if (cupti_.ActivityEnableRuntimeApi != nullptr) {
    ForCallbacks(cupti_, kDomainRuntime, kUnwantedRuntimeCalls, true,
                 [&](uint32_t callback) { cupti_.ActivityEnableRuntimeApi(callback, 0); });
  }
  if (cupti_.ActivityEnableDriverApi != nullptr) {
    ForCallbacks(cupti_, kDomainDriver, kDriverCalls, false,
                 [&](uint32_t callback) { cupti_.ActivityEnableDriverApi(callback, 0); });
  }
}

// Disables the kinds that were enabled here. With `is_taken`, kinds that Kineto uses stay enabled,
// because Kineto disables them when it is done.
void Session::Disable(bool is_taken) {
  for (const Kind& kind : kKinds) {
    if ((enabled_ >> kind.number & 1) != 0 && !(is_taken && kind.is_shared)) {
      cupti_.ActivityDisable(kind.number);
    }
  }
}

void Session::Read() {
  for (;;) {
    const BufferPool::Completed completed = pool_->TakeCompleted();
    if (completed.buffer == nullptr) break;
    if (!is_clock_replaced_) translator_.TranslateBuffer(completed.buffer, completed.valid_bytes);
    pool_->Recycle(completed.buffer);
    UpdatePage();
  }
}

bool Session::Look() {
  if (!clock_.Look(pid_, &ring_)) is_clock_replaced_ = true;
  return !is_clock_replaced_;
}

bool Session::Flush() {
  Read();  // reads the records made with the clock as it is until now
  if (!Look()) return false;
  cupti_.ActivityFlushAll(0);
  Read();
  CountDropped();
  translator_.TellUnread();
  UpdatePage();
  return !HasFewerKinds();
}

// Puts CUPTI back into its state before the recording, and reads the last records. Work that has
// not ended would be handed over without times, so the GPU first gets some time to finish it.
void Session::Undo() {
  Disable(false);
  Read();
  Look();
  const uint64_t limit_ns = MonotonicNs() + kTailLimitNs;
  for (;;) {
    cupti_.ActivityFlushAll(0);
    Read();
    if (pool_->lent() == 0 || MonotonicNs() >= limit_ns) break;
    WaitOn(&page_->command, __atomic_load_n(&page_->command, __ATOMIC_ACQUIRE), kTailPollNs);
  }
  cupti_.ActivityFlushAll(kFlushForced);
  Read();
  PutBack();
}

// Stops the recording, but leaves the kinds on that other users may use.
void Session::LeaveToOthers() {
  Disable(true);
  Read();
  Look();
  PutBack();
}

void Session::PutBack() {
  clock_.End();
  if (has_thread_ids_) cupti_.SetThreadIdType(thread_id_type_);
}

bool Session::MakeOwnCall() const {
  int count = 0;
  return make_own_call_ != nullptr && make_own_call_(&count) == 0;
}

// Finds out who gets CUPTI's records. Neither a subscription nor the enabled kinds show that:
// torch.profiler subscribes, and stays subscribed, even if it records the CPU alone. So a call of
// the Driver that is recorded is made here, and CUPTI calls either our callbacks for it or somebody
// else's.
Session::Owner Session::FindOwner() {
  const uint64_t before = pool_->calls();
  const uint64_t limit_ns = MonotonicNs() + kAnswerLimitNs;
  const uint32_t never = 0;
  do {
    if (!MakeOwnCall()) return Owner::kNotKnown;
    cupti_.ActivityFlushAll(0);
    Read();
    if (pool_->calls() != before) return Owner::kUs;
    WaitOn(&never, 0, kAnswerPollNs);
  } while (MonotonicNs() < limit_ns);
  // If all threads share one buffer (CUPTI before 12.3), it is not handed over while work in it has
  // not ended; so it is filled.
  for (size_t i = 0; i < kCallsOfABuffer; ++i) {
    if (!MakeOwnCall()) return Owner::kNotKnown;
    if (pool_->calls() != before) return Owner::kUs;
  }
  return translator_.counts().own == 0 ? Owner::kNotKnown : Owner::kOthers;
}

bool Session::End(Failure* failure) {
  const Owner owner = FindOwner();
  const bool has_foreign = pool_->foreign() != foreign_before_;
  const bool has_signs = HasFewerKinds() || is_clock_replaced_;
  bool is_others = owner == Owner::kOthers;
  if (owner == Owner::kNotKnown) is_others = has_signs || IsTaken(failure);
  if (is_others) {
    LeaveToOthers();
  } else {
    Undo();
  }
  CountDropped();
  translator_.TellUnread();
  UpdatePage();
  *failure = Failure{};
  if (!is_others && !has_signs && !has_foreign) return true;
  failure->failure = abi::PT_AGENT_TAKEN;
  Text text = TextIn(failure->message, sizeof(failure->message));
  Append(&text, is_others || has_signs
                    ? "another tool (torch.profiler?) took CUPTI over while recording: GPU "
                      "activity after that is missing"
                    : "another tool recorded with CUPTI before, and showed no sign of it: what it "
                      "had asked for came here");
  return false;
}

void Session::CountDropped() {
  size_t dropped = 0;
  if (cupti_.ActivityGetNumDroppedRecords(nullptr, 0, &dropped) != kCuptiSuccess || dropped == 0) {
    return;
  }
  cupti_dropped_ += dropped;
  abi::pt_gpu_count_record record{};
  record.head.time_ns = MonotonicNs();
  record.head.pid = static_cast<uint32_t>(pid_);
  record.count = dropped;
  ring_.Write(&record.head, sizeof(record), abi::PT_GPU_DROPPED);
}

void Session::UpdatePage() {
  const RecordCounts& counts = translator_.counts();
  Publish(&page_->cupti_records, counts.given);
  Publish(&page_->ring_records, counts.written);
  Publish(&page_->ring_dropped, counts.dropped);
  Publish(&page_->unread_records, counts.unread);
  Publish(&page_->incomplete_buffers, counts.incomplete);
  Publish(&page_->incomplete_bytes, counts.incomplete_bytes);
  Publish(&page_->cupti_dropped, cupti_dropped_);
  Publish(&page_->buffers_refused, pool_->refused() - refused_before_);
}

}  // namespace proftrace::agent
