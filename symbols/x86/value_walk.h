// Follows values through a function's code. Describes the content of a register or of a word of the
// frame at one place by the contents of the registers at an earlier place, so that a probe at the
// earlier place can read values that the code uses only later, or not at all while no profiler
// runs.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "bpf/abi/records.h"
#include "symbols/elf/code_image.h"
#include "symbols/x86/flow_graph.h"

namespace proftrace {

// value = base + offsets[0], then for each further offset value = *(u64*)value + offset.
struct Value {
  static constexpr int kUnknown = -1;
  // offsets[0] is an address, without a register
  static constexpr int kAddress = abi::PT_PLACE_ADDRESS;
  static constexpr int kAllocated = 17;  // the result of the last operator new
  // The result of __tls_get_addr plus offsets[1]. offsets[0]: the address of the tls_index.
  static constexpr int kThreadLocal = 18;
  static constexpr int kConstant = 19;  // offsets[0] is a number; only after set_tells_numbers()
  // offsets[1] plus the sum with the number offsets[0] in ValueSums
  static constexpr int kSum = 20;

  // The hardware number of a register at the walk's start, or one of these constants
  int base = kUnknown;
  std::vector<int64_t> offsets;
  bool is_byte = false;  // the value is only the lowest byte of that
  bool is_half = false;  // the value is only the lower half of that; only after set_follows_names()
  // The value is the text of the c10::Symbol in the lower half of that; only after
  // set_follows_names()
  bool is_symbol = false;

  bool is_whole() const { return !is_byte && !is_half && !is_symbol; }
  bool known() const { return base != kUnknown; }
  bool is_address() const { return base == kAddress && offsets.size() == 1; }
  bool is_number() const { return base == kConstant && offsets.size() == 1; }
  bool operator==(const Value&) const = default;
};

// Returns the value's place for BPF programs; nullopt: it takes too many steps, or cannot be a
// place.
std::optional<abi::pt_place> PlaceOf(const Value& value, abi::pt_place_form form);

// The values that are known right before one instruction.
class ValueState {
 public:
  // Makes the state at the walk's start, where each register holds its own value.
  ValueState();

  const Value& reg(unsigned number) const { return registers_[number]; }
  // Returns the low word of a vector register.
  const Value& vector(unsigned number) const { return wide_[number][0]; }
  // Returns the word at `value` + `offset`: the value that the walk has seen stored there, or else
  // the word at the walk's start.
  Value Load(const Value& value, int64_t offset) const;

  // Finds where `value` is at this instruction: in a register, or in a word of the frame above rsp.
  // The result is in terms of the registers at this instruction.
  std::optional<Value> Find(const Value& value) const;

  // Returns, by offset, the words that the walk has seen stored into the `bytes` from `object` on.
  // Words with unknown values are included.
  std::map<int64_t, Value> WordsOf(const Value& object, int64_t bytes) const;

 private:
  friend class ValueWalk;
  using Word = std::pair<int, int64_t>;  // base, offset
  void Store(const Value& address, int64_t offset, const Value& value);
  void ForgetAfterCall();
  // Forgets objects whose address the callee gets, because the callee may change them.
  void ForgetObjects(std::string_view callee);

  std::array<Value, 16> registers_;
  std::array<std::array<Value, 2>, 16> wide_;  // xmm0…15: low and high word
  std::map<Word, Value> memory_;
};

struct Disassembled;
class ValueSums;

class ValueWalk {
 public:
  explicit ValueWalk(const FlowGraph& graph) : graph_(graph) {}
  ValueWalk(const ValueWalk&) = delete;
  ValueWalk& operator=(const ValueWalk&) = delete;

  // Called before each instruction, for the first few paths that lead to it. Returning false ends
  // the path.
  using Visitor = std::function<bool(uint32_t node, const ValueState& state)>;
  // Walks from node `start` on, which is visited too.
  void Run(uint32_t start, const Visitor& visitor) { Run(start, ValueState(), visitor); }
  void Run(uint32_t start, ValueState first, const Visitor& visitor);

  // Returns the state with which to start at node `start`: registers and words of the frame that
  // hold addresses in the frame are expressed by rsp, so that a word of the frame is the same value
  // whichever register the code uses.
  ValueState FrameAt(uint32_t start);

  // A byte that an instruction compares with 0: its object and its offset in that.
  struct ComparedByte {
    Value object;
    int64_t offset = 0;
  };
  std::optional<ComparedByte> ComparedByteAt(uint32_t node, const ValueState& state);

  // Returns the function that an indirect call at the node calls.
  Value CalledAt(uint32_t node, const ValueState& state);

  // Returns the whole word that the instruction compares with 0; unknown: it does not compare one.
  Value TestedAt(uint32_t node, const ValueState& state) const;

  // Called for each store of Run(): `value` goes into the word at `address`, whatever its base is.
  using StoreVisitor = std::function<void(const Value& address, const Value& value)>;
  void set_store_visitor(StoreVisitor visitor) { on_store_ = std::move(visitor); }

  // Makes the walk follow numbers in the code (Value::kConstant), and bytes that are loaded as
  // numbers.
  void set_tells_numbers() { tells_numbers_ = true; }

  // Makes the walk follow values of which names are made: numbers of symbols, elements of arrays,
  // and both values where a null pointer decides. `sums` must outlive the walk.
  void set_follows_names(ValueSums* sums) {
    follows_names_ = true;
    sums_ = sums;
  }

  // Returns the result of a virtual function by its offset in the vtable, in terms of rdi; nullopt:
  // not known. For objects whose class the code does not show.
  using VirtualReturn = std::function<std::optional<Value>(int64_t offset)>;
  void set_virtual_return(VirtualReturn returned) { virtual_return_ = std::move(returned); }

  // Returns a name for the function at an address for which the file has none; empty: there is no
  // name.
  using CalleeName = std::function<std::string_view(uint64_t address)>;
  void set_callee_names(CalleeName names) { callee_names_ = std::move(names); }

  // Walks through a function that is called with `state`, by the rules of this walk. Where the
  // function leaves for another by a jump, the stack is as that function's caller would leave it.
  void RunCalled(const FlowGraph& callee, ValueState state, const Visitor& visitor) const;

  // Returns the result of the graph's function, in terms of its registers at the entry.
  Value ReturnValue();

  // Makes the walk follow sums and differences, and results of small functions of the file.
  void set_sums(ValueSums* sums, const CodeImage* image) {
    sums_ = sums;
    image_ = image;
  }

 private:
  const Disassembled* Decode(uint32_t node) const;
  bool IsChoice(uint32_t node) const;
  void Step(uint32_t node, ValueState* state);
  void StepCall(uint32_t node, ValueState* state);
  // Applies calls that only unoptimised code makes. Returns false for any other call.
  static bool StepKnownCall(std::string_view callee, ValueState* state);
  Value ComputedBy(uint32_t node, const Disassembled& now, const ValueState& state) const;
  struct Returned {
    Value rax;
    Value rdx;
  };
  Value VirtuallyReturnedBy(uint32_t node, const ValueState& state);
  Returned ReturnedBy(const FlowNode& call, const ValueState& state);

  const FlowGraph& graph_;
  StoreVisitor on_store_;
  bool tells_numbers_ = false;
  bool follows_names_ = false;
  VirtualReturn virtual_return_;
  CalleeName callee_names_;
  ValueSums* sums_ = nullptr;
  const CodeImage* image_ = nullptr;  // the code of functions that are followed
  // Called functions by their addresses; nullopt: the function is not followed.
  std::map<uint64_t, std::optional<FlowGraph>> callees_;
};

}  // namespace proftrace
