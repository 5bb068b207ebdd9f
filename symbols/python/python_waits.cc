#include "symbols/python/python_waits.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>

#include "symbols/python/python_objects.h"

namespace proftrace {
namespace {

constexpr int kMostWaitFrames = 3;
constexpr size_t kMostWaitTextBytes = 1024;

abi::pt_python_lock LockAt(const TargetMemory& memory, const PythonLayout& layout,
                           const PythonObjects& objects, uint64_t object, uint64_t word) {
  const uint64_t head = layout.stack.object_head;
  if (object < 4096 || object % 8 != 0 || object >> 47 != 0) return abi::PT_PYTHON_NO_LOCK;
  if (memory.ReadWord(object + PT_PYTHON_LOCK_OF_OBJECT + head) != word) {
    return abi::PT_PYTHON_NO_LOCK;
  }
  const std::optional<std::string> name = objects.TypeName(object);
  if (name == "_thread.lock") return abi::PT_PYTHON_LOCK;
  if (name == "_thread.RLock") return abi::PT_PYTHON_OWNED_LOCK;
  uint32_t most = 0;
  const bool is_lock = name == "_multiprocessing.SemLock" &&
                       memory.Read(object + PT_PYTHON_SEMAPHORE_MOST + head, &most, sizeof(most)) &&
                       most == 1;
  return is_lock ? abi::PT_PYTHON_OWNED_LOCK : abi::PT_PYTHON_NO_LOCK;
}

// Returns the code object of the thread's innermost Python frame; nullopt: it cannot be read.
std::optional<uint64_t> InnermostCode(const TargetMemory& memory, const PythonLayout& layout,
                                      uint64_t thread_id) {
  const abi::pt_python_layout& at = layout.stack;
  if (at.state_place == 0) return std::nullopt;
  const std::optional<uint64_t> state = memory.ReadWord(thread_id + at.state_place);
  if (!state.has_value() || memory.ReadWord(*state + at.thread_id) != thread_id) {
    return std::nullopt;
  }
  const uint64_t tags = ~uint64_t{at.pointer_tags};
  std::optional<uint64_t> frame = memory.ReadWord(*state + at.thread_frame);
  if (at.thread_indirect != 0 && frame.value_or(0) != 0) {
    frame = memory.ReadWord(*frame + at.thread_indirect - 1);
  }
  for (int i = 0; i < kMostWaitFrames && frame.value_or(0) != 0; ++i) {
    uint8_t owner = 0;
    if (at.frame_owner != 0 && !memory.Read(*frame + at.frame_owner, &owner, sizeof(owner))) {
      return std::nullopt;
    }
    if (at.frame_owner == 0 || owner < at.owner_limit) {
      const std::optional<uint64_t> code = memory.ReadWord(*frame + at.frame_code);
      return code.has_value() ? std::optional(*code & tags) : std::nullopt;
    }
    frame = memory.ReadWord(*frame + at.frame_previous);
    if (frame.has_value()) *frame &= tags;
  }
  return std::nullopt;
}

bool WaitsInThreading(const TargetMemory& memory, const PythonLayout& layout,
                      const PythonObjects& objects, uint64_t thread_id) {
  const std::optional<uint64_t> code = InnermostCode(memory, layout, thread_id);
  if (!code.has_value()) return true;
  const auto text = [&](uint16_t place) {
    return objects.Text(memory.ReadWord(*code + place).value_or(0), kMostWaitTextBytes);
  };
  const std::optional<std::string> file = text(layout.stack.code_file);
  const std::optional<std::string> name = text(layout.stack.code_name);
  if (!file.has_value() || !name.has_value()) return true;
  return file->ends_with("/threading.py") && (name == "wait" || name == "_wait_for_tstate_lock");
}

}  // namespace

uint64_t FindPythonGil(const TargetMemory& memory, const PythonRuntime& python) {
  if (python.layout.interpreter_gil == 0) {
    return python.layout.runtime_gil == 0 ? 0 : python.address + python.layout.runtime_gil;
  }
  return memory.ReadWord(python.main_interpreter + python.layout.interpreter_gil).value_or(0);
}

abi::pt_python_lock AwaitedPythonLock(const TargetMemory& memory, const PythonLayout& layout,
                                      uint64_t gil, const abi::pt_begun_wait& wait) {
  if (gil != 0 && wait.word - gil < PT_PYTHON_GIL_BYTES) return abi::PT_PYTHON_GIL;
  std::array<uint64_t, PT_WAIT_REGISTERS + PT_WAIT_STACK_WORDS> words{};
  std::copy(std::begin(wait.registers), std::end(wait.registers), words.begin());
  if (!memory.Read(wait.sp, words.data() + PT_WAIT_REGISTERS,
                   PT_WAIT_STACK_WORDS * sizeof(uint64_t))) {
    return abi::PT_PYTHON_NO_LOCK;
  }
  const PythonObjects objects(memory, layout);
  for (const uint64_t object : words) {
    const abi::pt_python_lock lock = LockAt(memory, layout, objects, object, wait.word);
    if (lock == abi::PT_PYTHON_LOCK && WaitsInThreading(memory, layout, objects, wait.thread_id)) {
      return abi::PT_PYTHON_NO_LOCK;
    }
    if (lock != abi::PT_PYTHON_NO_LOCK) return lock;
  }
  return abi::PT_PYTHON_NO_LOCK;
}

}  // namespace proftrace
