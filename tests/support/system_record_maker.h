// Raw records of system activity, as the BPF programs write them.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "bpf/abi/system_records.h"
#include "tests/support/record_maker.h"

namespace proftrace {

class SystemRecordMaker : public RecordMaker {
 public:
  using RecordMaker::RecordMaker;

  // `number`: of x86-64; 0 = read.
  abi::pt_system_call_record CallRecord(uint32_t tid, int64_t begin_ns, int64_t end_ns,
                                        uint16_t number, int64_t result) {
    abi::pt_system_call_record record{};
    record.head = Head(abi::PT_SYSTEM_CALL, tid, begin_ns, number, 0);
    record.duration_ns = static_cast<uint64_t>(end_ns - begin_ns);
    record.result = result;
    return record;
  }
  void SystemCall(uint32_t tid, int64_t begin_ns, int64_t end_ns, uint16_t number = 0,
                  int64_t result = 0, uint16_t lost = 0) {
    abi::pt_system_call_record record = CallRecord(tid, begin_ns, end_ns, number, result);
    record.lost = lost;
    AddBytes(&record, PT_SYSTEM_CALL_HEAD_BYTES);
  }
  void OffCpu(uint32_t tid, int64_t begin_ns, int64_t end_ns, int64_t queue_ns = 0,
              int32_t call = -1, uint32_t waker = 0, uint32_t waker_pid = kPid,
              uint32_t state = 1) {
    abi::pt_off_cpu_record record{};
    record.head = Head(abi::PT_OFF_CPU, tid, begin_ns, 0, 0);
    record.duration_ns = static_cast<uint64_t>(end_ns - begin_ns);
    record.run_queue_ns = static_cast<uint64_t>(queue_ns);
    record.state = state;
    record.call = call;
    if (waker != 0) {
      record.waker_pid = waker_pid;
      record.waker_tid = waker;
    }
    AddBytes(&record, sizeof(record));
  }
  void Fault(uint32_t tid, int64_t begin_ns, int64_t end_ns) {
    abi::pt_fault_record record{};
    record.head = Head(abi::PT_FAULT, tid, begin_ns, 0, 0);
    record.duration_ns = static_cast<uint64_t>(end_ns - begin_ns);
    record.area = abi::PT_FAULT_HEAP;
    AddBytes(&record, sizeof(record));
  }
  void File(uint32_t id, abi::pt_system_file_kind kind, const std::string& names) {
    abi::pt_system_file_record record{};
    record.head = Head(abi::PT_SYSTEM_FILE, 7, 1, 0, id);
    record.kind = kind;
    record.inode = 42;
    record.bytes = static_cast<uint16_t>(names.size());
    std::memcpy(record.text, names.data(), names.size());
    AddBytes(&record, PT_SYSTEM_FILE_HEAD_BYTES + (names.size() + 7) / 8 * 8);
  }
};

}  // namespace proftrace
