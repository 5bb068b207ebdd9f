#include "symbols/python/python_stacks.h"

#include <array>

#include "symbols/python/python_objects.h"
#include "symbols/python/sampled_frames.h"
#include "userspace/base/byte_view.h"

namespace proftrace {
namespace {

constexpr uint32_t kMostInterpreters = 1024;

// Returns the value at an offset in the frame's bytes; 0 where it lies outside.
template <typename T>
T Field(const std::array<uint8_t, PT_PYTHON_FRAME_BYTES>& bytes, size_t offset) {
  return ByteView(bytes).Get<T>(offset).value_or(T{});
}

class ThreadWalk {
 public:
  ThreadWalk(const TargetMemory& memory, const PythonLayout& layout, const PythonLimits& limits)
      : memory_(memory), layout_(layout), limits_(limits) {}

  PythonThreads Read() {
    auto interpreter = memory_.ReadWord(layout_.stack.interpreters);
    while (interpreter && *interpreter != 0 && result_.interpreters < kMostInterpreters) {
      ++result_.interpreters;
      ReadInterpreter(*interpreter);
      interpreter = memory_.ReadWord(*interpreter + layout_.stack.interpreter_next);
    }
    if (!interpreter || *interpreter != 0) result_.is_whole = false;
    return std::move(result_);
  }

 private:
  // Returns the address of an interpreter's lock; 0 = not known.
  uint64_t LockOf(uint64_t interpreter) const {
    if (layout_.interpreter_gil == 0) {
      return layout_.stack.interpreters - layout_.interpreters_head + layout_.runtime_gil;
    }
    return memory_.ReadWord(interpreter + layout_.interpreter_gil).value_or(0);
  }

  // Returns the PyThreadState that has the lock; 0 = none.
  uint64_t HolderOf(uint64_t gil) const {
    uint32_t locked = 0;
    if (gil == 0 || !memory_.Read(gil + layout_.gil_locked, &locked, sizeof(locked)) ||
        locked != 1) {
      return 0;
    }
    return memory_.ReadWord(gil + layout_.gil_holder).value_or(0);
  }

  void ReadInterpreter(uint64_t interpreter) {
    const auto number = memory_.ReadWord(interpreter + layout_.interpreter_id);
    if (number == uint64_t{0}) result_.main_interpreter = interpreter;
    const uint64_t gil = LockOf(interpreter);
    const uint64_t holder = HolderOf(gil);
    auto state = memory_.ReadWord(interpreter + layout_.stack.interpreter_threads);
    while (state && *state != 0 && result_.threads.size() < limits_.threads) {
      PythonThread thread;
      thread.state = *state;
      thread.interpreter = number.value_or(0);
      thread.gil = gil;
      thread.has_gil = holder == *state;
      thread.thread_id = memory_.ReadWord(*state + layout_.stack.thread_id).value_or(0);
      thread.native_id = NativeIdOf(*state, thread.thread_id);
      ReadFrames(&thread);
      result_.threads.push_back(std::move(thread));
      state = memory_.ReadWord(*state + layout_.stack.thread_next);
    }
    if (!state || *state != 0) result_.is_whole = false;
  }

  uint32_t NativeIdOf(uint64_t state, uint64_t thread_id) const {
    if (layout_.native_thread_id != 0) {
      const auto id = memory_.ReadWord(state + layout_.native_thread_id);
      return static_cast<uint32_t>(id.value_or(0));
    }
    uint32_t tid = 0;
    const bool is_known = thread_id != 0 && memory_.ReadWord(thread_id) == thread_id &&
                          memory_.Read(thread_id + kPthreadTid, &tid, sizeof(tid));
    return is_known ? tid : 0;
  }

  void ReadFrames(PythonThread* thread) {
    const abi::pt_python_layout& layout = layout_.stack;
    auto frame = InnermostPythonFrame(memory_, layout_, thread->state);
    if (!frame) {
      thread->failed = true;
      return;
    }
    // Every frame that is looked at counts for the limits, whether it is shown or not.
    for (size_t looks = 0; *frame != 0; ++looks) {
      if (looks >= limits_.frames || frames_ >= limits_.frames_in_all) {
        thread->is_cut = true;
        return;
      }
      ++frames_;
      std::array<uint8_t, PT_PYTHON_FRAME_BYTES> bytes{};
      if (layout.frame_bytes > bytes.size() ||
          !memory_.Read(*frame, bytes.data(), layout.frame_bytes)) {
        thread->failed = true;
        return;
      }
      const bool is_shown =
          layout.frame_owner == 0 || Field<uint8_t>(bytes, layout.frame_owner) < layout.owner_limit;
      if (is_shown) AddFrame(bytes, thread);
      frame = Field<uint64_t>(bytes, layout.frame_previous);
    }
  }

  void AddFrame(const std::array<uint8_t, PT_PYTHON_FRAME_BYTES>& bytes,
                PythonThread* thread) const {
    const abi::pt_python_layout& layout = layout_.stack;
    PythonStackFrame frame;
    frame.code = Field<uint64_t>(bytes, layout.frame_code) & ~uint64_t{layout.pointer_tags};
    // Up to 3.10 the number has four bytes, which may be the frame's last ones.
    const uint64_t instruction = layout.code_instructions == 0
                                     ? Field<uint32_t>(bytes, layout.frame_instruction)
                                     : Field<uint64_t>(bytes, layout.frame_instruction);
    const uint64_t own = OwnInstruction(memory_, layout_, frame.code,
                                        Field<uint32_t>(bytes, layout.frame_copy), instruction);
    frame.instruction = InstructionOf(layout_, {frame.code, own, 0, 0});
    thread->frames.push_back(frame);
  }

  const TargetMemory& memory_;
  const PythonLayout& layout_;
  const PythonLimits& limits_;
  size_t frames_ = 0;
  PythonThreads result_;
};

}  // namespace

PythonThreads ReadPythonThreads(const TargetMemory& memory, const PythonLayout& layout,
                                const PythonLimits& limits) {
  return ThreadWalk(memory, layout, limits).Read();
}

std::optional<PythonCodeWords> ReadPythonCodeWords(const TargetMemory& memory,
                                                   const PythonLayout& layout, uint64_t address) {
  const abi::pt_python_layout& at = layout.stack;
  const auto word = [&](uint64_t offset) { return memory.ReadWord(address + offset); };
  const auto type = word(PythonObjects::TypeOffset(layout));
  const auto file = word(at.code_file);
  const auto name = word(at.code_name);
  const auto qualified_name =
      word(at.code_qualified_name != 0 ? at.code_qualified_name : at.code_name);
  const auto lines = word(at.code_lines);
  PythonCodeWords words;
  if (!type || !file || !name || !qualified_name || !lines ||
      !memory.Read(address + at.code_first_line, &words.first_line, sizeof(words.first_line))) {
    return std::nullopt;
  }
  words.type = *type;
  words.file = *file;
  words.name = *name;
  words.qualified_name = *qualified_name;
  words.lines = *lines;
  return words;
}

std::optional<PythonCodeFacts> ReadPythonCode(const TargetMemory& memory,
                                              const PythonLayout& layout, uint64_t address) {
  const PythonObjects objects(memory, layout);
  if (objects.TypeName(address) != "code") return std::nullopt;
  const auto words = ReadPythonCodeWords(memory, layout, address);
  if (!words) return std::nullopt;
  auto file = objects.Text(words->file, PT_PYTHON_NAME_BYTES);
  auto name = objects.Text(words->name, PT_PYTHON_NAME_BYTES);
  auto qualified_name = objects.Text(words->qualified_name, PT_PYTHON_NAME_BYTES);
  if (!file || !name || !qualified_name) return std::nullopt;
  PythonCodeFacts code;
  code.file = *std::move(file);
  code.name = *std::move(name);
  code.qualified_name = *std::move(qualified_name);
  code.first_line = words->first_line;
  code.lines = objects.Bytes(words->lines, PT_PYTHON_LINES_BYTES).value_or(std::vector<uint8_t>());
  return code;
}

}  // namespace proftrace
