#include "userspace/decode/sample_decoder.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>

#include "bpf/abi/read_record.h"
#include "userspace/model/name_limits.h"
#include "userspace/model/python_stack.h"

namespace proftrace {
namespace {

constexpr size_t kMostTextBytes = size_t{64} << 20;  // of functions' names and files
constexpr uint64_t kLongestPeriodNs = 3'600'000'000'000;

}  // namespace

bool SampleDecoder::OnRecord(std::span<const std::byte> record) {
  switch (ReadRecord<abi::pt_record>(record).kind) {
    case abi::PT_SAMPLE:
      return OnSample(ReadRecord<abi::pt_sample_record>(record));
    case abi::PT_SAMPLE_FUNCTION:
      return OnFunction(ReadRecord<abi::pt_sample_function_record>(record),
                        std::min(record.size(), sizeof(abi::pt_sample_function_record)) -
                            PT_SAMPLE_FUNCTION_HEAD_BYTES);
    case abi::PT_SAMPLE_FRAME:
      return OnFrame(ReadRecord<abi::pt_sample_frame_record>(record));
    case abi::PT_WAKER:
      return OnWaker(ReadRecord<abi::pt_waker_record>(record));
  }
  return false;
}

uint32_t SampleDecoder::FrameOf(uint32_t id) const {
  const auto found = frame_numbers_.find(id);
  if (found != frame_numbers_.end()) return found->second;
  return id == 0 ? 0 : other_frame_;
}

bool SampleDecoder::OnSample(const abi::pt_sample_record& record) {
  if (record.period_ns == 0 || record.period_ns > kLongestPeriodNs || record.count == 0 ||
      record.state > abi::PT_SAMPLE_STOPPED) {
    return false;
  }
  DecodedSample decoded{Pid{record.head.pid}, Tid{record.head.tid}, {}};
  Sample& sample = decoded.sample;
  sample.time_ns = static_cast<int64_t>(record.head.time_ns);
  sample.period_ns = static_cast<int64_t>(record.period_ns);
  sample.count = record.count;
  sample.frame = FrameOf(record.frame);
  sample.call = std::max(record.call, -1);
  sample.state = static_cast<SampleState>(record.state);
  sample.native_cut = (record.flags & abi::PT_SAMPLE_NATIVE_CUT) != 0;
  sample.python_cut = (record.flags & abi::PT_SAMPLE_PYTHON_CUT) != 0;
  tables_.samples.push_back(decoded);
  return true;
}

uint32_t SampleDecoder::OtherFunction() {
  if (!other_function_.has_value()) {
    other_function_ = static_cast<uint32_t>(tables_.functions.size());
    tables_.functions.emplace_back().name = kOtherNames;
  }
  return *other_function_;
}

bool SampleDecoder::OnFunction(const abi::pt_sample_function_record& record, size_t room) {
  if (size_t{record.name_bytes} + record.file_bytes > room ||
      record.kind > abi::PT_SAMPLE_FRAME_KERNEL) {
    return false;
  }
  if (tables_.functions.size() >= kMostNames || text_bytes_ >= kMostTextBytes) {
    (void)OtherFunction();
    ++tables_.other_functions;
    return true;
  }
  text_bytes_ += size_t{record.name_bytes} + record.file_bytes;
  // A function is defined again where a capture was put together from parts.
  function_numbers_[record.id] = static_cast<uint32_t>(tables_.functions.size());
  SampleFunction& function = tables_.functions.emplace_back();
  function.pid = Pid{record.head.pid};
  function.kind = static_cast<SampleFrameKind>(record.kind);
  function.name.assign(record.text, record.name_bytes);
  function.file.assign(record.text + record.name_bytes, record.file_bytes);
  function.first_line = record.first_line;
  return true;
}

bool SampleDecoder::OnFrame(const abi::pt_sample_frame_record& record) {
  if (record.id == 0) return false;
  const auto function = function_numbers_.find(record.function);
  if (tables_.frames.size() >= kMostPaths) {
    if (other_frame_ == 0) {
      const uint32_t other = OtherFunction();
      other_frame_ = static_cast<uint32_t>(tables_.frames.size());
      tables_.frames.push_back({0, other, 0});
    }
    ++tables_.other_frames;
    return true;
  }
  // The function's record was lost: the frame is left out, and its callees lie on its caller.
  if (function == function_numbers_.end() && !other_function_.has_value()) {
    frame_numbers_[record.id] = FrameOf(record.parent);
    return true;
  }
  const uint32_t parent = FrameOf(record.parent);
  const bool is_other = function == function_numbers_.end();
  // Such functions that call each other are one frame.
  if (is_other && tables_.frames[parent].function == *other_function_ && parent != 0) {
    frame_numbers_[record.id] = parent;
    return true;
  }
  frame_numbers_[record.id] = static_cast<uint32_t>(tables_.frames.size());
  tables_.frames.push_back(
      {parent, is_other ? *other_function_ : function->second, is_other ? 0 : record.line});
  return true;
}

bool SampleDecoder::OnWaker(const abi::pt_waker_record& record) {
  if (record.woken_tid == 0) return false;
  tables_.wakers.push_back({static_cast<int64_t>(record.head.time_ns), Tid{record.head.tid},
                            Tid{record.woken_tid}, FrameOf(record.frame)});
  return true;
}

SampleDecoder::Tables SampleDecoder::TakeTables(
    const std::function<std::vector<std::string>(Pid)>& paths_of) {
  std::map<uint32_t, std::vector<std::string>> paths;
  for (SampleFunction& function : tables_.functions) {
    if (function.kind != SampleFrameKind::kPython) continue;
    const auto [it, is_new] = paths.try_emplace(Raw(function.pid));
    if (is_new) it->second = paths_of(function.pid);
    function.is_installed = IsInstalledPython(function.file);
    function.file = std::string(WithoutPythonPath(function.file, it->second));
  }
  return std::move(tables_);
}

}  // namespace proftrace
