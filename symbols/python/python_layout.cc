#include "symbols/python/python_layout.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace proftrace {
namespace {

using Stack = abi::pt_python_layout;

constexpr char kCookie[] = "xdebugpy";
constexpr size_t kWords = 111;  // of 3.15's _Py_DebugOffsets; 3.13's have 73, 3.14's 95
constexpr size_t kVersionWord = 1;
constexpr size_t kFreeThreadedWord = 2;
constexpr size_t kSharedKeysWord315 = 67;  // ht_cached_keys; earlier versions do not publish it
// Its offset in earlier versions with a global interpreter lock
constexpr uint16_t kSharedKeys = 880;
// The limit of all offsets. In the largest object, PyInterpreterState, the fields that are read lie
// within 4 KB.
constexpr uint64_t kMostOffset = 60000;
constexpr uint64_t kPointerBytes = 8;
constexpr uint16_t kCellValue = 16;

// Where _Py_DebugOffsets hold each offset, in words of 8 bytes.
struct StackWord {
  uint16_t Stack::*field;
  uint8_t word_313;
  uint8_t word_314;
  uint8_t word_315;
};
constexpr StackWord kStackWords[] = {
    {&Stack::interpreter_next, 8, 8, 8},       {&Stack::interpreter_threads, 9, 9, 9},
    {&Stack::thread_next, 21, 24, 24},         {&Stack::thread_id, 24, 27, 30},
    {&Stack::thread_frame, 23, 26, 26},        {&Stack::frame_code, 30, 33, 41},
    {&Stack::frame_previous, 29, 32, 40},      {&Stack::frame_instruction, 31, 34, 42},
    {&Stack::frame_owner, 33, 36, 44},         {&Stack::frame_locals, 32, 35, 43},
    {&Stack::code_file, 35, 40, 48},           {&Stack::code_name, 36, 41, 49},
    {&Stack::code_qualified_name, 37, 42, 50}, {&Stack::code_first_line, 39, 44, 52},
    {&Stack::code_arguments, 40, 45, 53},      {&Stack::code_lines, 38, 43, 51},
    {&Stack::code_instructions, 43, 48, 56},   {&Stack::text_length, 69, 79, 91},
    {&Stack::text_state, 68, 78, 90},          {&Stack::text_ascii, 70, 80, 92},
    {&Stack::bytes_length, 65, 75, 87},        {&Stack::bytes_data, 66, 76, 88},
};
struct LayoutWord {
  uint16_t PythonLayout::*field;
  uint8_t word_313;
  uint8_t word_314;
  uint8_t word_315;
};
constexpr LayoutWord kLayoutWords[] = {
    {&PythonLayout::finalizing, 4, 4, 4},
    {&PythonLayout::interpreters_head, 5, 5, 5},
    {&PythonLayout::interpreter_id, 7, 7, 7},
    {&PythonLayout::interpreter_modules, 11, 12, 12},
    {&PythonLayout::interpreter_variables, 12, 13, 13},
    {&PythonLayout::interpreter_gil, 14, 15, 15},
    {&PythonLayout::gil_holder, 18, 19, 19},
    {&PythonLayout::gil_locked, 17, 18, 18},
    {&PythonLayout::native_thread_id, 25, 28, 31},
    {&PythonLayout::tuple_items, 51, 57, 69},
};

// Offsets that only a free-threaded build has. The build of 3.13 has no copies of a code object's
// instructions.
constexpr StackWord kFreeThreadedWords[] = {
    {&Stack::code_copies, 0, 49, 57},
    {&Stack::frame_copy, 0, 38, 46},
};

struct Word {
  uint8_t word_313;
  uint8_t word_314;
  uint8_t word_315;
};
// The word with the offset of an interpreter's own GIL in its state.
constexpr Word kOwnGil = {15, 16, 16};
// The word with the offset of an object's class, which is kUsualObjectType with a global
// interpreter lock.
constexpr Word kObjectType = {45, 51, 59};
constexpr uint16_t kUsualObjectType = 8;
// PyASCIIObject.state.interned takes a byte in a free-threaded build, and two bits in others.
constexpr uint8_t kFreeThreadedTextShift = 6;

// The lowest value of FRAME_OWNED_BY_… of a frame that does not run Python code (3.12 and later;
// 3.11 has no such frames).
constexpr uint16_t kOwnerLimit = 3;

void SetFrameBytes(Stack* stack) {
  const bool is_number = stack->version <= kPython310;
  stack->frame_bytes = static_cast<uint16_t>(std::max(
      {stack->frame_code + kPointerBytes, stack->frame_previous + kPointerBytes,
       stack->frame_instruction + (is_number ? 4 : kPointerBytes), stack->frame_owner + uint64_t{1},
       stack->code_copies == 0 ? 0 : stack->frame_copy + sizeof(uint32_t)}));
}

// Returns the offsets that no version has changed so far.
PythonLayout CommonLayout(uint32_t version) {
  PythonLayout layout;
  Stack& stack = layout.stack;
  stack.version = version;
  stack.thread_next = 8;
  stack.text_length = 16;
  stack.text_state = 32;
  stack.bytes_length = 16;
  stack.bytes_data = 32;
  stack.cell_value = kCellValue;
  layout.tuple_items = 24;
  return layout;
}

// The kind of data at an offset, which decides where the offset may lie.
enum class Use : uint8_t {
  kPointer,    // 8 bytes of an object, aligned; read at their address
  kNumber,     // 4 bytes of an object, aligned; read at their address
  kBytes,      // a place in an object from which bytes are read
  kFrameWord,  // 8 bytes, aligned, in the PT_PYTHON_FRAME_BYTES that are copied of a frame
  kFrameHalf,  // 4 bytes of these
  kFrameByte,  // 1 byte of these
  kTextWord,   // 8 bytes in the kPythonTextHeadBytes that are copied of a str
  kTextByte,   // 4 bytes of these, of which the first is used
};

bool IsUsableAt(Use use, uint64_t offset) {
  switch (use) {
    case Use::kPointer:
      return offset % kPointerBytes == 0 && offset < kMostOffset;
    case Use::kNumber:
      return offset % sizeof(uint32_t) == 0 && offset < kMostOffset;
    case Use::kBytes:
      return offset < kMostOffset;
    case Use::kFrameWord:
      return offset % kPointerBytes == 0 && offset + kPointerBytes <= PT_PYTHON_FRAME_BYTES;
    case Use::kFrameHalf:
      return offset % sizeof(uint32_t) == 0 && offset + sizeof(uint32_t) <= PT_PYTHON_FRAME_BYTES;
    case Use::kFrameByte:
      return offset < PT_PYTHON_FRAME_BYTES;
    case Use::kTextWord:
      return offset % kPointerBytes == 0 && offset + kPointerBytes <= kPythonTextHeadBytes;
    case Use::kTextByte:
      return offset + sizeof(uint32_t) <= kPythonTextHeadBytes;
  }
  return false;
}

// All offsets of both structs. A new offset must be added here to be checked.
constexpr struct {
  uint16_t Stack::*field;
  Use use;
} kStackUses[] = {
    {&Stack::interpreter_next, Use::kPointer},
    {&Stack::interpreter_threads, Use::kPointer},
    {&Stack::thread_next, Use::kPointer},
    {&Stack::thread_id, Use::kPointer},
    {&Stack::thread_frame, Use::kPointer},
    {&Stack::frame_code, Use::kFrameWord},
    {&Stack::frame_previous, Use::kFrameWord},
    {&Stack::frame_owner, Use::kFrameByte},
    {&Stack::frame_entry, Use::kFrameByte},
    {&Stack::frame_locals, Use::kPointer},
    {&Stack::code_file, Use::kPointer},
    {&Stack::code_name, Use::kPointer},
    {&Stack::code_qualified_name, Use::kPointer},
    {&Stack::code_lines, Use::kPointer},
    {&Stack::code_first_line, Use::kNumber},
    {&Stack::code_arguments, Use::kNumber},
    {&Stack::code_instructions, Use::kBytes},
    {&Stack::text_length, Use::kTextWord},
    {&Stack::text_state, Use::kTextByte},
    {&Stack::text_ascii, Use::kBytes},
    {&Stack::text_wide, Use::kBytes},
    {&Stack::bytes_length, Use::kPointer},
    {&Stack::bytes_data, Use::kBytes},
    {&Stack::cell_value, Use::kPointer},
    {&Stack::object_head, Use::kPointer},
    {&Stack::code_copies, Use::kPointer},
    {&Stack::frame_copy, Use::kFrameHalf},
};
constexpr struct {
  uint16_t PythonLayout::*field;
  Use use;
} kLayoutUses[] = {
    {&PythonLayout::interpreters_head, Use::kPointer},
    {&PythonLayout::finalizing, Use::kPointer},
    {&PythonLayout::interpreter_id, Use::kPointer},
    {&PythonLayout::interpreter_modules, Use::kPointer},
    {&PythonLayout::interpreter_variables, Use::kPointer},
    {&PythonLayout::interpreter_gil, Use::kPointer},
    {&PythonLayout::runtime_gil, Use::kPointer},
    {&PythonLayout::gil_holder, Use::kPointer},
    {&PythonLayout::gil_locked, Use::kNumber},
    {&PythonLayout::native_thread_id, Use::kPointer},
    {&PythonLayout::tuple_items, Use::kPointer},
    {&PythonLayout::shared_keys, Use::kPointer},
};

// Returns the layout of 3.9 or 3.10, where frames are objects and the thread's state points to the
// newest one.
PythonLayout ObjectFrames(uint32_t version) {
  PythonLayout layout = CommonLayout(version);
  Stack& stack = layout.stack;
  const bool is_39 = version == kPython39;
  stack.interpreter_threads = 8;
  stack.thread_id = 176;
  stack.thread_frame = 24;
  stack.frame_previous = 24;
  stack.frame_code = 32;
  stack.frame_instruction = is_39 ? 104 : 96;
  stack.frame_locals = is_39 ? 360 : 352;
  stack.instruction_shift = is_39 ? 1 : 0;
  stack.code_first_line = 40;
  stack.code_arguments = 16;
  stack.code_file = 104;
  stack.code_name = 112;
  stack.code_lines = 120;
  stack.text_ascii = 48;
  stack.text_wide = 72;
  layout.finalizing = 16;
  layout.interpreters_head = 32;
  layout.interpreter_id = 24;
  layout.interpreter_modules = 856;
  layout.interpreter_variables = 872;
  layout.runtime_gil = 360;
  layout.gil_locked = 8;
  layout.shared_keys = is_39 ? 864 : 872;
  return layout;
}

// Returns the layout of 3.11 or 3.12, where frames lie on a stack of their own and a _PyCFrame on
// the C stack points to the newest one.
PythonLayout StackFrames(uint32_t version) {
  PythonLayout layout = CommonLayout(version);
  Stack& stack = layout.stack;
  const bool is_311 = version == kPython311;
  stack.interpreter_threads = is_311 ? 16 : 72;
  stack.thread_id = is_311 ? 152 : 136;
  stack.thread_frame = 56;
  stack.thread_indirect = is_311 ? 1 + 8 : 1 + 0;
  stack.frame_code = is_311 ? 32 : 0;
  stack.frame_previous = is_311 ? 48 : 8;
  stack.frame_instruction = 56;
  stack.frame_owner = is_311 ? 69 : 70;
  stack.frame_entry = is_311 ? 68 : 0;
  stack.owner_limit = kOwnerLimit;
  stack.frame_locals = 72;
  stack.code_first_line = is_311 ? 72 : 68;
  stack.code_arguments = is_311 ? 56 : 52;
  stack.code_file = 112;
  stack.code_name = 120;
  stack.code_qualified_name = 128;
  stack.code_lines = 136;
  stack.code_instructions = is_311 ? 184 : 192;
  stack.text_ascii = is_311 ? 48 : 40;
  stack.text_wide = is_311 ? 72 : 56;
  layout.finalizing = 24;
  layout.interpreters_head = 40;
  layout.interpreter_id = is_311 ? 48 : 8;
  layout.interpreter_modules = is_311 ? 888 : 944;
  layout.interpreter_variables = is_311 ? 904 : 352;
  layout.runtime_gil = is_311 ? 368 : 0;
  layout.interpreter_gil = is_311 ? 0 : 384;
  layout.gil_holder = is_311 ? 0 : 8;
  layout.gil_locked = is_311 ? 8 : 16;
  layout.native_thread_id = is_311 ? 160 : 144;
  layout.shared_keys = is_311 ? 872 : 880;
  return layout;
}

bool IsFreeThreaded(const std::array<uint64_t, kWords>& words) {
  return words[kFreeThreadedWord] != 0;
}

// Reads the offsets in _Py_DebugOffsets.
class OwnOffsets {
 public:
  OwnOffsets(const std::array<uint64_t, kWords>& words, uint32_t version)
      : words_(words), version_(version) {}

  // Returns false where an offset is impossible.
  bool are_possible() const { return are_possible_; }

  void Take(PythonLayout* layout) {
    for (const StackWord& word : kStackWords) layout->stack.*word.field = At(word);
    for (const LayoutWord& word : kLayoutWords) layout->*word.field = At(word);
    // The offsets in the GIL are given from the begin of the interpreter's state, in which the
    // interpreter's own GIL lies.
    const uint16_t own_gil = At(kOwnGil);
    are_possible_ = are_possible_ && own_gil <= std::min(layout->gil_holder, layout->gil_locked);
    layout->gil_holder = static_cast<uint16_t>(layout->gil_holder - own_gil);
    layout->gil_locked = static_cast<uint16_t>(layout->gil_locked - own_gil);
    // Another str has a pointer to its UTF-8 text and the length of that text where an ASCII str
    // has its characters, so that its own characters lie behind these two.
    layout->stack.text_wide = static_cast<uint16_t>(layout->stack.text_ascii + 2 * kPointerBytes);
    layout->stack.owner_limit = kOwnerLimit;
    layout->stack.pointer_tags = version_ == kPython313 ? 0 : 3;
    layout->shared_keys = version_ == kPython315 ? AtWord(kSharedKeysWord315) : kSharedKeys;
  }

  // Takes the offsets of a free-threaded build, for 3.14 and 3.15 only. Must be called after
  // Take().
  void TakeFreeThreaded(PythonLayout* layout) {
    for (const StackWord& word : kFreeThreadedWords) layout->stack.*word.field = At(word);
    const uint16_t type = At(kObjectType);
    are_possible_ = are_possible_ && type > kUsualObjectType && layout->stack.code_copies != 0 &&
                    layout->stack.frame_copy != 0;
    const auto head = static_cast<uint16_t>(type - kUsualObjectType);
    layout->stack.object_head = head;
    layout->stack.text_shift = kFreeThreadedTextShift;
    layout->stack.cell_value = static_cast<uint16_t>(kCellValue + head);
    if (version_ != kPython315) layout->shared_keys = static_cast<uint16_t>(kSharedKeys + head);
  }

 private:
  uint16_t AtWord(size_t word) {
    are_possible_ = are_possible_ && words_[word] < kMostOffset;
    return static_cast<uint16_t>(words_[word]);
  }
  uint16_t At(const auto& word) {
    return AtWord(version_ == kPython313   ? word.word_313
                  : version_ == kPython314 ? word.word_314
                                           : word.word_315);
  }

  const std::array<uint64_t, kWords>& words_;
  const uint32_t version_;
  bool are_possible_ = true;
};

}  // namespace

std::string PythonVersionText(uint32_t version) {
  return absl::StrCat(version >> 8U, ".", version & 0xffU);
}

std::optional<PythonLayout> KnownPythonLayout(uint32_t version) {
  if (version < kPython39 || version > kPython312) return std::nullopt;
  PythonLayout layout = version <= kPython310 ? ObjectFrames(version) : StackFrames(version);
  SetFrameBytes(&layout.stack);
  return layout;
}

bool IsUsable(const PythonLayout& layout) {
  const Stack& stack = layout.stack;
  for (const auto& [field, use] : kStackUses) {
    if (!IsUsableAt(use, stack.*field)) return false;
  }
  for (const auto& [field, use] : kLayoutUses) {
    if (!IsUsableAt(use, layout.*field)) return false;
  }
  const Use instruction = stack.version <= kPython310 ? Use::kFrameHalf : Use::kFrameWord;
  const uint64_t indirect = stack.thread_indirect == 0 ? 0 : stack.thread_indirect - 1;
  return IsUsableAt(instruction, stack.frame_instruction) && IsUsableAt(Use::kPointer, indirect) &&
         stack.frame_bytes <= PT_PYTHON_FRAME_BYTES && stack.instruction_shift < 32 &&
         stack.text_shift < 32;
}

bool SaysFreeThreaded(const TargetMemory& memory, uint64_t runtime) {
  std::array<uint64_t, kWords> words{};
  return memory.Read(runtime, words.data(), sizeof(words)) &&
         std::memcmp(words.data(), kCookie, sizeof(uint64_t)) == 0 && IsFreeThreaded(words);
}

absl::StatusOr<std::optional<PythonLayout>> ReadPythonLayout(const TargetMemory& memory,
                                                             uint64_t runtime) {
  std::array<uint64_t, kWords> words{};
  if (!memory.Read(runtime, words.data(), sizeof(words))) return std::nullopt;
  if (std::memcmp(words.data(), kCookie, sizeof(uint64_t)) != 0) return std::nullopt;
  const auto version = static_cast<uint32_t>((words[kVersionWord] >> 16U) & 0xffffU);
  if (version < kPython313 || version > kPython315) {
    return absl::FailedPreconditionError(
        absl::StrCat("Python ", PythonVersionText(version), " is not supported: 3.9 to 3.15 are"));
  }
  const bool is_free_threaded = IsFreeThreaded(words);
  if (is_free_threaded && version == kPython313) {
    return absl::FailedPreconditionError(
        "free-threaded builds of Python 3.13 are not supported: those of 3.14 and 3.15 are");
  }
  PythonLayout layout = CommonLayout(version);
  OwnOffsets own(words, version);
  own.Take(&layout);
  if (is_free_threaded) own.TakeFreeThreaded(&layout);
  SetFrameBytes(&layout.stack);
  if (!own.are_possible() || !IsUsable(layout)) {
    return absl::FailedPreconditionError(
        absl::StrCat("Python ", PythonVersionText(version),
                     " says of its own layout (_Py_DebugOffsets) what cannot be"));
  }
  return layout;
}

}  // namespace proftrace
