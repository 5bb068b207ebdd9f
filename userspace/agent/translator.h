#pragma once

#include <stddef.h>
#include <stdint.h>

#include "bpf/abi/gpu_records.h"
#include "userspace/agent/activity_records.h"
#include "userspace/agent/clock.h"
#include "userspace/agent/cupti.h"
#include "userspace/agent/name_table.h"
#include "userspace/agent/ring_writer.h"

namespace proftrace::agent {

// Counts of CUPTI's records. Always: given = written + dropped + unread.
struct RecordCounts {
  uint64_t given;
  uint64_t written;
  uint64_t dropped;  // the ring had no room for the record, or for its name
  uint64_t unread;   // the record's kind or layout is not known
  // Buffers with an incomplete record. The size of such a record is not known, so everything behind
  // it is lost, too. None of these records is counted in `given`.
  uint64_t incomplete;
  uint64_t incomplete_bytes;  // from the incomplete record to the end of its buffer
  uint64_t own;               // records of calls that the agent made itself; not in `given`
};

// Translates CUPTI's records to those of bpf/abi/gpu_records.h. Used by one thread.
class Translator {
 public:
  struct Sources {
    const Cupti* cupti;
    const ActivitySizes* sizes;
    const Clock* clock;
    RingWriter* ring;
    NameTable* names;
    int pid;
    bool has_thread_ids;  // CUPTI's thread ids are the kernel's
    int (*device_attribute)(int* value, int attribute, int device);  // may be nullptr
    // The number of the call of the Driver that the agent makes itself. 0: there is none.
    uint32_t own_callback;
  };

  Translator() = default;
  explicit Translator(const Sources& from) : from_(from) {}

  // Translates all records in one buffer of CUPTI's.
  void TranslateBuffer(uint8_t* buffer, size_t valid_bytes);
  // Tells the reader how many records could not be read since the last call.
  void TellUnread();

  const RecordCounts& counts() const { return counts_; }

 private:
  static constexpr uint32_t kCachedCallbacks = 1024;

  enum class Outcome { kWritten, kDropped, kUnread };
  const uint8_t* EndOf(const uint8_t* record, const uint8_t* end) const;
  bool IsOwn(const uint8_t* record) const;
  Outcome Translate(const uint8_t* record, size_t room);
  Outcome Kernel(const uint8_t* record, size_t size);
  Outcome Memcpy(const uint8_t* record, size_t size);
  Outcome PeerCopy(const uint8_t* record, size_t size);
  Outcome Memset(const uint8_t* record, size_t size);
  Outcome Synchronization(const uint8_t* record, size_t size);
  Outcome Call(const uint8_t* record, size_t size);
  Outcome External(const uint8_t* record, size_t size);
  Outcome Marker(const uint8_t* record, size_t size);
  Outcome Overhead(const uint8_t* record, size_t size);
  Outcome Memory(const uint8_t* record, size_t size);
  Outcome MemoryPool(const uint8_t* record, size_t size);
  Outcome Device(const uint8_t* record, size_t size);
  Outcome Context(const uint8_t* record, size_t size);
  Outcome GraphTrace(const uint8_t* record, size_t size);
  Outcome CudaEvent(const uint8_t* record, size_t size);

  template <typename Record>
  Record Begin(uint64_t cupti_ns, uint32_t thread = 0) const;
  template <typename Record>
  Outcome Put(Record* record, abi::pt_gpu_kind kind);
  template <typename Activity, typename Record>
  void SetTransfer(const Activity& from, Record* to) const;
  bool NameOf(const char* text, uint64_t* id);
  bool CallName(uint32_t domain, uint32_t callback, uint64_t* id);
  uint32_t ThreadOf(uint32_t object_kind, const ActivityObject& object) const;

  Sources from_{};
  RecordCounts counts_{};
  uint64_t unread_by_kind_[kActivityKinds + 1] = {};  // the last one counts all higher kinds
  uint64_t call_names_[3][kCachedCallbacks] = {};     // ids; 0: not looked up
};

}  // namespace proftrace::agent
