#include "userspace/wire/told_once.h"

#include <algorithm>
#include <cstddef>

#include "bpf/abi/gpu_records.h"
#include "bpf/abi/python_records.h"
#include "bpf/abi/read_record.h"
#include "bpf/abi/record_kinds.h"
#include "bpf/abi/sample_records.h"
#include "bpf/abi/system_records.h"

namespace proftrace {

bool IsDefinition(uint8_t kind) {
  switch (kind) {
    case abi::PT_GPU_NAME:
    case abi::PT_GPU_DEVICE:
    case abi::PT_GPU_CONTEXT:
    case abi::PT_GPU_CLOCK:
      return true;
    default:
      return (abi::kRecordKinds[kind].roles & abi::PT_ROLE_DEFINES) != 0;
  }
}

bool IsToldOnce(uint8_t kind) { return IsDefinition(kind) || abi::kRecordKinds[kind].roles != 0; }

int64_t EndOf(const abi::pt_record& head, std::span<const std::byte> record) {
  const auto time_ns = static_cast<int64_t>(head.time_ns);
  if (head.kind < abi::PT_SYSTEM_CALL || head.kind > abi::PT_REQUEST) return time_ns;
  // All these records have the duration at the same place.
  static_assert(offsetof(abi::pt_system_call_record, duration_ns) == sizeof(abi::pt_record));
  static_assert(offsetof(abi::pt_off_cpu_record, duration_ns) == sizeof(abi::pt_record));
  static_assert(offsetof(abi::pt_fault_record, duration_ns) == sizeof(abi::pt_record));
  static_assert(offsetof(abi::pt_request_record, duration_ns) == sizeof(abi::pt_record));
  const uint64_t duration_ns = ReadRecord<abi::pt_pointer_record>(record).value;
  const uint64_t most_ns = uint64_t{1} << 60;
  return static_cast<int64_t>(std::min(head.time_ns, most_ns) + std::min(duration_ns, most_ns));
}

std::optional<DefinitionKey> DefinitionOf(std::span<const std::byte> record) {
  const auto head = ReadRecord<abi::pt_record>(record);
  switch (head.kind) {
    case abi::PT_THREAD_NUMBER:
      return DefinitionKey{head.kind, head.pid, head.tid};
    case abi::PT_PYTHON_CODE:
      return DefinitionKey{head.kind, 0, ReadRecord<abi::pt_python_code_record>(record).id};
    case abi::PT_PYTHON_MODULE:
      return DefinitionKey{head.kind, head.pid, ReadRecord<abi::pt_pair_record>(record).handle};
    case abi::PT_SAMPLE_FUNCTION:
      return DefinitionKey{head.kind, 0, ReadRecord<abi::pt_sample_function_record>(record).id};
    case abi::PT_SAMPLE_FRAME:
      return DefinitionKey{head.kind, 0, ReadRecord<abi::pt_sample_frame_record>(record).id};
    case abi::PT_GPU_NAME: {
      const auto name = ReadRecord<abi::pt_gpu_name_record>(record);
      if (name.offset != 0) return std::nullopt;
      return DefinitionKey{head.kind, head.pid, name.id};
    }
    case abi::PT_GPU_DEVICE:
      return DefinitionKey{head.kind, head.pid,
                           ReadRecord<abi::pt_gpu_device_record>(record).device};
    case abi::PT_GPU_CONTEXT:
      return DefinitionKey{head.kind, head.pid,
                           ReadRecord<abi::pt_gpu_context_record>(record).context};
    case abi::PT_GPU_CLOCK:  // any reading of the clock will do, so the last one is kept
      return DefinitionKey{head.kind, head.pid, 0};
    default:
      if (!IsDefinition(head.kind)) return std::nullopt;
      return DefinitionKey{head.kind, 0, head.sp};
  }
}

std::optional<DefinitionKey> ContinuationOf(std::span<const std::byte> record) {
  const auto head = ReadRecord<abi::pt_record>(record);
  if (head.kind == abi::PT_PYTHON_TEXT) {
    // A text without an id names the class of the module that its thread has just defined.
    const uint32_t id = ReadRecord<abi::pt_python_text_record>(record).id;
    if (id != 0) return DefinitionKey{abi::PT_PYTHON_CODE, 0, id};
  }
  if (head.kind == abi::PT_GPU_NAME) {
    const auto name = ReadRecord<abi::pt_gpu_name_record>(record);
    if (name.offset != 0) return DefinitionKey{head.kind, head.pid, name.id};
  }
  return std::nullopt;
}

}  // namespace proftrace
