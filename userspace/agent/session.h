#pragma once

#include <stddef.h>
#include <stdint.h>

#include "bpf/abi/gpu_records.h"
#include "userspace/agent/activity_records.h"
#include "userspace/agent/buffer_pool.h"
#include "userspace/agent/clock.h"
#include "userspace/agent/cupti.h"
#include "userspace/agent/cupti_library.h"
#include "userspace/agent/name_table.h"
#include "userspace/agent/ring_writer.h"
#include "userspace/agent/translator.h"

namespace proftrace::agent {

struct Failure {
  abi::pt_agent_failure failure = abi::PT_AGENT_NO_FAILURE;
  CuptiResult result = kCuptiSuccess;
  char message[PT_AGENT_MESSAGE_BYTES] = {};
};

// One recording by CUPTI, on one thread: Begin() once, Read() and Flush() again and again, End()
// once.
//
// CUPTI has one user at a time: the last one to register buffer callbacks gets everybody's records.
// README.md tells how the session keeps out of the way of other users.
class Session {
 public:
  struct Callbacks {
    BufferRequested requested;
    BufferCompleted completed;
  };

  // The arguments must outlive the session. `names` must be empty.
  Session(abi::pt_agent_page* page, RingWriter ring, BufferPool* pool, NameTable names, int pid)
      : page_(page), ring_(ring), pool_(pool), names_(names), pid_(pid) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Makes CUPTI record. Returns false if that fails; then `failure` says why, and CUPTI is left as
  // it was. On success, the message of `failure` names the kinds of activity that CUPTI does not
  // record. `library` is CUPTI's handle. The driver must be ready (StateOf).
  bool Begin(void* library, const Driver& driver, const Callbacks& callbacks, Failure* failure);
  // Reads completed buffers.
  void Read();
  // Makes CUPTI hand over its records, and reads them. Returns false if another user of CUPTI was
  // seen.
  bool Flush();
  // Makes CUPTI stop and hand over all records, for which it waits a second at most. Returns false
  // if there was another user of CUPTI; `failure` says so, and if that user now gets the records,
  // everything that it may be using is left as it is.
  bool End(Failure* failure);

 private:
  // The user whose callbacks get CUPTI's records.
  enum class Owner { kUs, kOthers, kNotKnown };

  bool IsTaken(Failure* failure);
  Owner FindOwner();
  bool MakeOwnCall() const;
  bool CountEnabledKinds(uint32_t* count) const;
  bool HasFewerKinds() const;
  bool EnableKinds(Failure* failure);
  void TurnOffUnwantedCalls();
  void Disable(bool is_taken);
  void Undo();
  void LeaveToOthers();
  void PutBack();
  bool Look();
  void CountDropped();
  void UpdatePage();
  void Describe(const char* call, CuptiResult result, Failure* failure) const;

  abi::pt_agent_page* page_;
  RingWriter ring_;
  BufferPool* pool_;
  NameTable names_;
  int pid_;
  Cupti cupti_{};
  ActivitySizes sizes_{};
  Clock clock_;
  Translator translator_;
  uint64_t enabled_ = 0;         // one bit for each kind that was enabled here
  uint32_t enabled_kinds_ = 0;   // how many kinds CUPTI said were on; 0: CUPTI does not tell
  uint32_t thread_id_type_ = 0;  // CUPTI's setting before the recording
  bool has_thread_ids_ = false;
  int (*make_own_call_)(int* count) = nullptr;  // cuDeviceGetCount
  bool is_clock_replaced_ = false;              // CUPTI's times mean nothing to us from then on
  uint64_t refused_before_ = 0;
  uint64_t foreign_before_ = 0;
  uint64_t cupti_dropped_ = 0;
};

}  // namespace proftrace::agent
