// Columns for facts that only some spans of some recordings have: one column for each kind of fact,
// with one item for each span. A column exists from the first span that has such an item; spans
// without one read as T{}, all zeros.
#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "userspace/model/chunk_store.h"
#include "userspace/model/device_activity.h"
#include "userspace/model/ids.h"
#include "userspace/model/operator_inputs.h"
#include "userspace/model/python_stack.h"
#include "userspace/model/script_place.h"

namespace proftrace {

template <typename T>
class SpanColumn {
 public:
  static constexpr size_t kMemoryBytes = size_t{16} << 20;  // the rest is spilled

  explicit SpanColumn(std::string spill_directory) : spill_directory_(std::move(spill_directory)) {}

  // Returns whether any span has an item.
  bool exists() const { return items_ != nullptr; }
  T at(SpanId span) const {
    return items_ && Raw(span) < items_->size() ? items_->at(Raw(span)) : T{};
  }
  // Fails with ExitCode::kOutputFailed when the spill file cannot grow.
  absl::Status Set(SpanId span, const T& item) {
    if (!items_) items_ = std::make_unique<ChunkStore<T>>(spill_directory_, kMemoryBytes);
    if (absl::Status status = items_->GrowTo(Raw(span) + 1); !status.ok()) return status;
    items_->at(Raw(span)) = item;
    return absl::OkStatus();
  }

 private:
  std::string spill_directory_;
  std::unique_ptr<ChunkStore<T>> items_;
};

// Autograd's link between a forward operator and the nodes that run in the backward pass.
struct SpanSequence {
  int64_t number_plus_1 = 0;    // torch's sequence number + 1; 0 = it has none
  uint32_t forward_tid = 0;     // OS thread of the forward; 0 = none or not known
  uint32_t forward_number = 0;  // torch's own number of that thread; 0 = not a backward row
  uint32_t forward_plus_1 = 0;  // SpanId + 1 of the forward operator; 0 = none or not known
  bool has_arrow = false;       // torch draws the arrow from the forward operator to this row
  uint8_t reserved[3] = {};

  bool is_backward() const { return forward_number != 0; }
};

// Bytes allocated less bytes freed on a span's thread while the span was open. The `self` members
// leave out the bytes of the direct children.
struct SpanMemory {
  int64_t cpu_bytes = 0;
  int64_t self_cpu_bytes = 0;
  int64_t device_bytes = 0;
  int64_t self_device_bytes = 0;

  bool operator==(const SpanMemory&) const = default;
};

// What the kernel did on a span's thread while the span was open. The `self` members leave out what
// belongs to the span's children. Times are clipped to the span.
struct SpanSystem {
  int64_t off_cpu_ns = 0;
  int64_t self_off_cpu_ns = 0;
  int64_t run_queue_ns = 0;       // of off_cpu_ns
  int64_t self_run_queue_ns = 0;  // of self_off_cpu_ns
  uint32_t calls = 0;
  uint32_t self_calls = 0;
  uint32_t faults = 0;
  uint32_t self_faults = 0;
  // 1: all members here may be too small, because records of the thread were lost meanwhile or the
  // span's end is not known
  uint32_t is_unknown = 0;
  uint32_t reserved = 0;
};

struct SpanColumns {
  explicit SpanColumns(const std::string& spill_directory)
      : sequence(spill_directory),
        memory(spill_directory),
        inputs(spill_directory),
        call_bytes(spill_directory),
        cuda_call(spill_directory),
        device_ns(spill_directory),
        stack(spill_directory),
        own_stack(spill_directory),
        script(spill_directory),
        system(spill_directory),
        shared_ns(spill_directory),
        began_in_plus_1(spill_directory) {}

  SpanColumn<SpanSequence> sequence;
  SpanColumn<SpanMemory> memory;
  SpanColumn<InputsId> inputs;
  SpanColumn<uint64_t> call_bytes;  // what a CUDA call copies, sets or allocates; 0 = not told
  SpanColumn<CudaCall> cuda_call;
  SpanColumn<int64_t> device_ns;  // of operators: how long devices worked for their own calls
  SpanColumn<StackId> stack;      // --with-stack
  // The stack that ran where a row began, for rows whose `stack` is another row's. kNoOwnStack:
  // none.
  SpanColumn<StackId> own_stack;
  SpanColumn<ScriptId> script;    // --with-modules
  SpanColumn<SpanSystem> system;  // --activities
  // The part of a row's self time in which rows that began later overlap it, so that both count the
  // time. Below 0 for a row that counts less self time than it would alone.
  SpanColumn<int64_t> shared_ns;
  // Only where Span::is_apart: the row it began in, + 1; 0 = none. A collective's work, which
  // another thread executes, began in the operator that made it.
  SpanColumn<uint32_t> began_in_plus_1;
};

}  // namespace proftrace
