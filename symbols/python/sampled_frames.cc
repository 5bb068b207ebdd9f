#include "symbols/python/sampled_frames.h"

#include <array>

#include "userspace/base/byte_view.h"

namespace proftrace {
namespace {

// No code object has as many instructions, because the size of co_code is an int.
constexpr int64_t kMostInstructions = int64_t{1} << 30;

using FrameBytes = std::array<uint8_t, PT_PYTHON_FRAME_BYTES>;

// Returns the value at an offset in the frame's bytes; 0 where it lies outside.
template <typename T>
T Field(const FrameBytes& bytes, size_t offset) {
  return ByteView(bytes).Get<T>(offset).value_or(T{});
}

bool IsCode(const abi::pt_python_layout& layout, const FrameBytes& bytes) {
  return layout.frame_owner == 0 || Field<uint8_t>(bytes, layout.frame_owner) < layout.owner_limit;
}

}  // namespace

std::optional<uint64_t> InnermostPythonFrame(const TargetMemory& memory, const PythonLayout& layout,
                                             uint64_t state) {
  const auto frame = memory.ReadWord(state + layout.stack.thread_frame);
  if (layout.stack.thread_indirect == 0 || !frame || *frame == 0) return frame;
  return memory.ReadWord(*frame + layout.stack.thread_indirect - 1);
}

// A struct _PyCodeArray is a number, followed by as many pointers.
std::optional<uint64_t> BeginOfCopy(const TargetMemory& memory, const abi::pt_python_layout& layout,
                                    uint64_t code, uint32_t copy) {
  const auto copies = memory.ReadWord(code + layout.code_copies);
  const auto count = copies ? memory.ReadWord(*copies) : std::nullopt;
  if (!count || copy >= *count) return std::nullopt;
  const auto begin = memory.ReadWord(*copies + 8 + uint64_t{8} * copy);
  return begin.value_or(0) != 0 ? begin : std::nullopt;
}

uint64_t OwnInstruction(const TargetMemory& memory, const PythonLayout& layout, uint64_t code,
                        uint32_t copy, uint64_t instruction) {
  const abi::pt_python_layout& at = layout.stack;
  if (at.code_copies == 0 || copy == 0) return instruction;
  const uint64_t own = code + at.code_instructions;
  const auto begin = BeginOfCopy(memory, at, code, copy);
  return begin ? instruction - *begin + own : own - 2;
}

SampledFrames ReadSampledFrames(const TargetMemory& memory, const PythonLayout& layout,
                                uint64_t state) {
  const abi::pt_python_layout& at = layout.stack;
  SampledFrames result;
  uint64_t address = InnermostPythonFrame(memory, layout, state).value_or(0);
  const auto tags = ~uint64_t{at.pointer_tags};
  while (address != 0) {
    if (result.frames.size() >= PT_SAMPLE_FRAMES) {
      result.flags |= abi::PT_PYTHON_STACK_CUT;
      return result;
    }
    FrameBytes bytes{};
    if (at.frame_bytes > bytes.size() || !memory.Read(address, bytes.data(), at.frame_bytes)) {
      result.flags |= abi::PT_PYTHON_STACK_FAILED;
      return result;
    }
    abi::pt_sampled_frame frame{};
    if (IsCode(at, bytes)) {
      frame.code = Field<uint64_t>(bytes, at.frame_code) & tags;
      const auto file = memory.ReadWord(frame.code + at.code_file);
      const auto name = memory.ReadWord(frame.code + at.code_name);
      if (frame.code == 0 || !file || !name) {
        result.flags |= abi::PT_PYTHON_STACK_FAILED;
        return result;
      }
      frame.file = *file;
      frame.name = *name;
      frame.instruction =
          OwnInstruction(memory, layout, frame.code, Field<uint32_t>(bytes, at.frame_copy),
                         Field<uint64_t>(bytes, at.frame_instruction));
      if (at.frame_entry != 0 && Field<uint8_t>(bytes, at.frame_entry) != 0) {
        frame.instruction |= PT_SAMPLE_FRAME_IS_ENTRY;
      }
    }
    result.frames.push_back(frame);
    address = Field<uint64_t>(bytes, at.frame_previous) & tags;
  }
  return result;
}

uint32_t InstructionOf(const PythonLayout& layout, const abi::pt_sampled_frame& frame) {
  const abi::pt_python_layout& at = layout.stack;
  if (at.code_instructions == 0) {
    const auto number = static_cast<int32_t>(frame.instruction);
    return static_cast<uint32_t>(number >> at.instruction_shift);
  }
  const uint64_t address = frame.instruction & ~PT_SAMPLE_FRAME_IS_ENTRY;
  const auto distance = static_cast<int64_t>(address - (frame.code + at.code_instructions)) / 2;
  return distance >= -1 && distance < kMostInstructions ? static_cast<uint32_t>(distance)
                                                        : UINT32_MAX;
}

size_t FramesOfOneCall(const PythonLayout& layout, const abi::pt_sampled_frame* frames,
                       size_t count) {
  const abi::pt_python_layout& at = layout.stack;
  if (count == 0) return 0;
  // Up to 3.10 each frame is run by a call of its own.
  if (at.frame_owner == 0) return 1;
  for (size_t i = 0; i < count; ++i) {
    const bool is_last = at.frame_entry != 0
                             ? (frames[i].instruction & PT_SAMPLE_FRAME_IS_ENTRY) != 0
                             : frames[i].code == 0;
    if (is_last) return i + 1;
  }
  return count;
}

}  // namespace proftrace
