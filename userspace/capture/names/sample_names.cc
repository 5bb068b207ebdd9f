#include "userspace/capture/names/sample_names.h"

#include <absl/container/flat_hash_set.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "bpf/abi/records.h"
#include "symbols/python/python_stacks.h"
#include "symbols/python/sampled_frames.h"
#include "userspace/base/clock.h"
#include "userspace/model/name_limits.h"
#include "userspace/model/python_stack.h"
#include "userspace/model/system_calls.h"

namespace proftrace {
namespace {

// The function in which CPython runs bytecode (Python/ceval.c); compilers add to its name.
constexpr char kEvaluation[] = "_PyEval_EvalFrameDefault";
constexpr size_t kMostNameBytes = 1400;
constexpr size_t kMostFileBytes = PT_SAMPLE_TEXT_BYTES - kMostNameBytes;
// The limits of the tables, so that a job that makes code all the time does not fill the tracer's
// memory.
constexpr size_t kMostCodes = size_t{1} << 18;
constexpr size_t kMostFrames = size_t{1} << 19;
constexpr char kCut[] = "…";

// Returns the beginning of a name, in whole characters of UTF-8, where the name is too long.
std::string CutName(const std::string& name, size_t most_bytes) {
  if (name.size() <= most_bytes) return name;
  size_t end = most_bytes - (sizeof(kCut) - 1);
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xc0) == 0x80) --end;
  return name.substr(0, end) + kCut;
}

template <typename T>
void Append(const T& record, size_t bytes, std::vector<std::byte>* records) {
  const auto* begin = reinterpret_cast<const std::byte*>(&record);
  records->insert(records->end(), begin, begin + bytes);
}

abi::pt_record HeadOf(Pid pid, uint8_t kind, size_t bytes) {
  abi::pt_record head{};
  head.time_ns = static_cast<uint64_t>(MonotonicNs());
  head.pid = Raw(pid);
  head.tid = Raw(pid);
  head.kind = kind;
  head.words = static_cast<uint8_t>(bytes / 8);
  return head;
}

}  // namespace

void SampleNames::AddProcess(Pid pid, SampledProcess facts) {
  auto process = std::make_unique<Process>(pid);
  process->facts = std::move(facts);
  absl::StatusOr<std::unique_ptr<NativeUnwinder>> unwinder = NativeUnwinder::Create(pid, &symbols_);
  if (unwinder.ok()) process->unwinder = *std::move(unwinder);
  processes_[Raw(pid)] = std::move(process);
}

void SampleNames::RemoveProcess(Pid pid) {
  processes_.erase(Raw(pid));
  absl::flat_hash_set<uint32_t> functions;
  absl::erase_if(function_ids_, [&](const auto& entry) {
    if (std::get<0>(entry.first) != Raw(pid)) return false;
    functions.insert(entry.second);
    return true;
  });
  if (functions.empty()) return;
  absl::erase_if(frame_ids_, [&functions](const auto& entry) {
    return functions.contains(std::get<1>(entry.first));
  });
}

uint32_t SampleNames::FunctionOf(Pid pid, abi::pt_sample_frame_kind kind, const std::string& name,
                                 const std::string& file, int32_t first_line,
                                 std::vector<std::byte>* records) {
  // From then on, functions are recorded again under other numbers. The earlier numbers stay valid.
  if (function_ids_.size() >= kMostNames) function_ids_.clear();
  const auto [it, is_new] = function_ids_.try_emplace(
      {Raw(pid), static_cast<int>(kind), name, file, first_line}, last_function_ + 1);
  if (!is_new) return it->second;
  ++last_function_;
  const std::string short_name = CutName(name, kMostNameBytes);
  const std::string short_file = CutName(file, kMostFileBytes);
  abi::pt_sample_function_record record{};
  const size_t bytes =
      (PT_SAMPLE_FUNCTION_HEAD_BYTES + short_name.size() + short_file.size() + 7) / 8 * 8;
  record.head = HeadOf(pid, abi::PT_SAMPLE_FUNCTION, bytes);
  record.id = it->second;
  record.first_line = first_line;
  record.name_bytes = static_cast<uint16_t>(short_name.size());
  record.file_bytes = static_cast<uint16_t>(short_file.size());
  record.kind = kind;
  std::memcpy(record.text, short_name.data(), short_name.size());
  std::memcpy(record.text + short_name.size(), short_file.data(), short_file.size());
  Append(record, bytes, records);
  return it->second;
}

uint32_t SampleNames::FrameOf(Pid pid, uint32_t parent, const Frame& frame,
                              std::vector<std::byte>* records) {
  // From then on, frames are recorded again under other numbers.
  if (frame_ids_.size() >= kMostFrames) frame_ids_.clear();
  const auto [it, is_new] =
      frame_ids_.try_emplace({parent, frame.function, frame.line}, last_frame_ + 1);
  if (!is_new) return it->second;
  ++last_frame_;
  abi::pt_sample_frame_record record{};
  record.head = HeadOf(pid, abi::PT_SAMPLE_FRAME, sizeof(record));
  record.id = it->second;
  record.parent = parent;
  record.function = frame.function;
  record.line = frame.line;
  Append(record, sizeof(record), records);
  return it->second;
}

const SampleNames::Code& SampleNames::CodeOf(Process* process, Pid pid,
                                             const abi::pt_sampled_frame& frame,
                                             std::vector<std::byte>* records) {
  if (process->codes.size() >= kMostCodes) process->codes.clear();
  const auto [it, is_new] = process->codes.try_emplace(CodeKey{frame.code, frame.file, frame.name});
  Code& code = it->second;
  if (!is_new) return code;
  const PythonLayout& layout = *process->facts.python;
  const auto is_same = [&] {
    const auto words = ReadPythonCodeWords(process->memory, layout, frame.code);
    return words && words->file == frame.file && words->name == frame.name;
  };
  if (!is_same()) return code;
  const auto facts = ReadPythonCode(process->memory, layout, frame.code);
  if (!facts || !is_same()) return code;
  const bool is_hidden = IsHiddenPythonCode(facts->file, facts->name);
  code.function = is_hidden ? UINT32_MAX
                            : FunctionOf(pid, abi::PT_SAMPLE_FRAME_PYTHON, facts->name, facts->file,
                                         facts->first_line, records);
  code.lines.emplace(process->facts.python_version, facts->first_line, facts->lines);
  return code;
}

bool SampleNames::AddPython(Process* process, const SampleReading& sample, size_t* next,
                            std::vector<Frame>* frames, std::vector<std::byte>* records) {
  if (!process->facts.python || *next >= sample.frames.size()) return false;
  const PythonLayout& layout = *process->facts.python;
  const size_t count =
      FramesOfOneCall(layout, sample.frames.data() + *next, sample.frames.size() - *next);
  for (size_t i = 0; i < count; ++i) {
    const abi::pt_sampled_frame& frame = sample.frames[(*next)++];
    if (frame.code == 0) continue;
    const Code& code = CodeOf(process, sample.pid, frame, records);
    if (code.function == 0 || code.function == UINT32_MAX) continue;
    const int32_t line =
        code.lines ? code.lines->LineOf(InstructionOf(layout, frame)).value_or(0) : 0;
    frames->push_back({code.function, line});
  }
  return true;
}

const SampleNames::Native& SampleNames::NativeAt(Process* process, Pid pid, uint64_t address,
                                                 std::vector<std::byte>* records) {
  if (process->generation != process->unwinder->generation() ||
      process->natives.size() >= kMostCodes) {
    process->natives.clear();
    process->generation = process->unwinder->generation();
  }
  const auto [it, is_new] = process->natives.try_emplace(address);
  if (!is_new) return it->second;
  const NativeFunction function = process->unwinder->FunctionAt(address);
  Native& native = it->second;
  native.function =
      FunctionOf(pid, abi::PT_SAMPLE_FRAME_NATIVE, function.name, function.file, 0, records);
  if (process->facts.python && function.file == process->facts.python_file) {
    native.kind =
        function.name.starts_with(kEvaluation) ? NativeKind::kEvaluation : NativeKind::kInterpreter;
  }
  return native;
}

void SampleNames::AddNative(Process* process, const SampleReading& sample,
                            std::vector<Frame>* frames, uint8_t* flags,
                            std::vector<std::byte>* records) {
  bool is_whole = false;
  const std::vector<uint64_t> addresses =
      process->unwinder->Unwind(sample.registers, sample.stack, &is_whole);
  if (!is_whole) *flags |= abi::PT_SAMPLE_NATIVE_CUT;
  size_t next_python = 0;
  bool has_python = false;
  for (const uint64_t address : addresses) {
    const Native native = NativeAt(process, sample.pid, address, records);
    if (native.kind == NativeKind::kEvaluation &&
        AddPython(process, sample, &next_python, frames, records)) {
      has_python = true;
      continue;
    }
    // Between Python's frames, the interpreter's own frames say nothing.
    if (native.kind != NativeKind::kOther && has_python) continue;
    // The native frames that start the interpreter say nothing either.
    if (has_python && next_python >= sample.frames.size()) break;
    frames->push_back({native.function, 0});
  }
  // Python frames are left where the native stack could not be followed to its end.
  while (AddPython(process, sample, &next_python, frames, records)) {
  }
}

NamedSample SampleNames::Name(const SampleReading& sample, std::vector<std::byte>* records) {
  NamedSample named;
  const auto found = processes_.find(Raw(sample.pid));
  if (found == processes_.end()) return named;
  Process* process = found->second.get();
  std::vector<Frame> frames;  // innermost first
  if (sample.registers.call >= 0) {
    const std::string call =
        SystemCallName(SystemAbi::kX86_64, static_cast<uint64_t>(sample.registers.call));
    frames.push_back(
        {FunctionOf(sample.pid, abi::PT_SAMPLE_FRAME_KERNEL, call, "", 0, records), 0});
  }
  if (sample.flags != 0) named.flags |= abi::PT_SAMPLE_PYTHON_CUT;
  if (process->unwinder != nullptr && !sample.stack.empty()) {
    AddNative(process, sample, &frames, &named.flags, records);
  } else {
    size_t next = 0;
    while (AddPython(process, sample, &next, &frames, records)) {
    }
    named.flags |= abi::PT_SAMPLE_NATIVE_CUT;
  }
  for (size_t i = frames.size(); i-- > 0;) {
    named.frame = FrameOf(sample.pid, named.frame, frames[i], records);
  }
  return named;
}

}  // namespace proftrace
