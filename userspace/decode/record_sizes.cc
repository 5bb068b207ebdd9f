#include "userspace/decode/record_sizes.h"

#include "bpf/abi/python_records.h"
#include "bpf/abi/records.h"
#include "bpf/abi/sample_records.h"
#include "bpf/abi/script_records.h"
#include "bpf/abi/system_records.h"

namespace proftrace {

size_t MinimumRecordBytes(uint8_t kind) {
  switch (kind) {
    case abi::PT_SPAN_BEGIN:
    case abi::PT_SPAN_END:
    case abi::PT_CATCH:
    case abi::PT_EXEC:
    case abi::PT_LITERAL_BEGIN:
    case abi::PT_FREE:
    case abi::PT_STACKED_FREE:
      return sizeof(abi::pt_record);
    case abi::PT_BOXED_BEGIN:
    case abi::PT_ANNOTATION_HANDLE:
    case abi::PT_ANNOTATION_END:
    case abi::PT_ANNOTATION_GUARD:
    case abi::PT_GUARD_END:
    case abi::PT_LOSS:
    case abi::PT_LOSS_ANYWHERE:
    case abi::PT_ALLOCATION:
    case abi::PT_STACKED_ALLOCATION:
    case abi::PT_SEQUENCE:
    case abi::PT_THREAD_NUMBER:
    case abi::PT_SIZED_BEGIN:
    case abi::PT_NAMED_BEGIN:
      return sizeof(abi::pt_pointer_record);
    case abi::PT_GUARD_BEGIN:
    case abi::PT_FRAME_BEGIN:
      return PT_GUARD_RECORD_SHORT_BYTES;
    case abi::PT_WORK_TITLE:
      return sizeof(abi::pt_guard_record);
    case abi::PT_WORK_BEGIN:
      return sizeof(abi::pt_pointer_record);
    case abi::PT_FRAME_END:
    case abi::PT_GROUP_CALL:
    case abi::PT_NODE_FORWARD:
      return sizeof(abi::pt_pair_record);
    case abi::PT_NODE_BEGIN:
      return PT_NODE_RECORD_SHORT_BYTES;
    case abi::PT_ANNOTATION_BEGIN:
      return sizeof(abi::pt_text_record);
    case abi::PT_TEXT_MORE:
      return sizeof(abi::pt_text_more_record);
    case abi::PT_FORK:
      return sizeof(abi::pt_fork_record);
    case abi::PT_THREAD_EXIT:
      return sizeof(abi::pt_exit_record);
    case abi::PT_DEVICE_MEMORY:
    case abi::PT_OUT_OF_MEMORY:
      return sizeof(abi::pt_memory_record);
    case abi::PT_INPUTS:
    case abi::PT_INPUTS_MORE:
    case abi::PT_SPILLED_INPUTS:
    case abi::PT_KEYWORDS:
      return PT_INPUTS_HEAD_BYTES;
    case abi::PT_OPERATOR_CALL:
      return PT_CALL_HEAD_BYTES;
    case abi::PT_PYTHON_CODE:
      return sizeof(abi::pt_python_code_record);
    case abi::PT_PYTHON_TEXT:
      return PT_PYTHON_TEXT_HEAD_BYTES;
    case abi::PT_PYTHON_STACK:
      return PT_PYTHON_STACK_HEAD_BYTES;
    case abi::PT_PYTHON_MODULE:
      return sizeof(abi::pt_pair_record);
    case abi::PT_SCRIPT_STACK:
      return PT_SCRIPT_HEAD_BYTES;
    case abi::PT_SAMPLE:
      return sizeof(abi::pt_sample_record);
    case abi::PT_SAMPLE_FUNCTION:
      return PT_SAMPLE_FUNCTION_HEAD_BYTES;
    case abi::PT_SAMPLE_FRAME:
      return sizeof(abi::pt_sample_frame_record);
    case abi::PT_SYSTEM_CALL:
      return PT_SYSTEM_CALL_HEAD_BYTES;
    case abi::PT_OFF_CPU:
      return sizeof(abi::pt_off_cpu_record);
    case abi::PT_FAULT:
      return sizeof(abi::pt_fault_record);
    case abi::PT_REQUEST:
      return sizeof(abi::pt_request_record);
    case abi::PT_SYSTEM_FILE:
      return PT_SYSTEM_FILE_HEAD_BYTES;
    case abi::PT_WAKER:
      return sizeof(abi::pt_waker_record);
  }
  return 0;
}

}  // namespace proftrace
