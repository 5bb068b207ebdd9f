// Raw records of samples, as the tracer writes them.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "bpf/abi/sample_records.h"
#include "tests/support/system_record_maker.h"

namespace proftrace {

class SampleRecordMaker : public SystemRecordMaker {
 public:
  static constexpr uint64_t kPeriodNs = 1000;
  using SystemRecordMaker::SystemRecordMaker;

  void Function(uint32_t id, abi::pt_sample_frame_kind kind, const std::string& name,
                const std::string& file, int32_t first_line = 0) {
    abi::pt_sample_function_record record{};
    record.head = Head(abi::PT_SAMPLE_FUNCTION, kThread, 1, 0, 0);
    record.id = id;
    record.kind = kind;
    record.first_line = first_line;
    record.name_bytes = static_cast<uint16_t>(name.size());
    record.file_bytes = static_cast<uint16_t>(file.size());
    const std::string text = name + file;
    std::memcpy(record.text, text.data(), text.size());
    AddBytes(&record, PT_SAMPLE_FUNCTION_HEAD_BYTES + (text.size() + 7) / 8 * 8);
  }
  void Frame(uint32_t id, uint32_t parent, uint32_t function, int32_t line = 0) {
    abi::pt_sample_frame_record record{};
    record.head = Head(abi::PT_SAMPLE_FRAME, kThread, 1, 0, 0);
    record.id = id;
    record.parent = parent;
    record.function = function;
    record.line = line;
    AddBytes(&record, sizeof(record));
  }
  void Sample(uint32_t tid, int64_t ns, uint32_t frame, uint32_t count = 1,
              uint8_t state = abi::PT_SAMPLE_RUNNING, int32_t call = -1) {
    abi::pt_sample_record record{};
    record.head = Head(abi::PT_SAMPLE, tid, ns, 0, 0);
    record.period_ns = kPeriodNs;
    record.count = count;
    record.frame = frame;
    record.call = call;
    record.state = state;
    AddBytes(&record, sizeof(record));
  }
  void Waker(uint32_t tid, int64_t ns, uint32_t woken, uint32_t frame) {
    abi::pt_waker_record record{};
    record.head = Head(abi::PT_WAKER, tid, ns, 0, 0);
    record.frame = frame;
    record.woken_tid = woken;
    AddBytes(&record, sizeof(record));
  }

 private:
  static constexpr uint32_t kThread = 7;  // that functions and frames are told of says nothing
};

}  // namespace proftrace
