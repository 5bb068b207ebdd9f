// Follows values through a function's code: what a register or a word of the frame holds at one
// place, said in terms of what the registers held at another. So a probe at the first place can
// read what the code only looks at later, or not at all while no profiler runs.
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
  static constexpr int kAddress = abi::PT_PLACE_ADDRESS;  // base is 0: offsets[0] is an address
  static constexpr int kAllocated = 17;                   // what the last operator new returned
  // What __tls_get_addr returned, offsets[1] further; offsets[0]: the address of the tls_index.
  static constexpr int kThreadLocal = 18;
  static constexpr int kConstant = 19;  // offsets[0] is a number; only where the walk tells them
  static constexpr int kSum = 20;       // offsets[1] + the sum that ValueSums has as offsets[0]

  int base = kUnknown;  // hardware number of a register at the walk's start, or one of these
  std::vector<int64_t> offsets;
  bool is_byte = false;    // only the lowest byte of it
  bool is_half = false;    // the lower half of it; only where the walk follows names
  bool is_symbol = false;  // the text of the c10::Symbol in its lower half; also only with names

  bool is_whole() const { return !is_byte && !is_half && !is_symbol; }
  bool known() const { return base != kUnknown; }
  bool is_address() const { return base == kAddress && offsets.size() == 1; }
  bool is_number() const { return base == kConstant && offsets.size() == 1; }
  bool operator==(const Value&) const = default;
};

// Returns where the value is, for BPF; nullopt: it takes too many steps, or is none.
std::optional<abi::pt_place> PlaceOf(const Value& value, abi::pt_place_form form);

// What is known at one instruction, before it runs.
class ValueState {
 public:
  // Each register holds itself.
  ValueState();

  const Value& reg(unsigned number) const { return registers_[number]; }
  // The low word of a vector register.
  const Value& vector(unsigned number) const { return wide_[number][0]; }
  // Returns the word at `value` + `offset`: as stored on the way, else as it was at the start.
  Value Load(const Value& value, int64_t offset) const;

  // Finds where `value` is at this instruction, in terms of the registers here: in one of them, or
  // in a word of the frame that rsp points into.
  std::optional<Value> Find(const Value& value) const;

  // Returns the words that were stored on the way into the `bytes` from `object` on, by their
  // offset: also those whose value is not known.
  std::map<int64_t, Value> WordsOf(const Value& object, int64_t bytes) const;

 private:
  friend class ValueWalk;
  using Word = std::pair<int, int64_t>;  // base, offset
  void Store(const Value& address, int64_t offset, const Value& value);
  void ForgetAfterCall();
  // Forgets objects whose address the callee gets: it may fill them.
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

  // Called before each instruction, for the first few ways that lead to it. False ends that way.
  using Visitor = std::function<bool(uint32_t node, const ValueState& state)>;
  // From node `start` on. `start` itself is visited too.
  void Run(uint32_t start, const Visitor& visitor) { Run(start, ValueState(), visitor); }
  void Run(uint32_t start, ValueState first, const Visitor& visitor);

  // Returns the state to start with at node `start`: registers and words of the frame that hold
  // addresses of the frame there, in terms of rsp, so that a word is the same one by whichever
  // register the code names it.
  ValueState FrameAt(uint32_t start);

  // The object, and the offset in it, of the byte that the instruction compares with 0, where it
  // does so.
  struct ComparedByte {
    Value object;
    int64_t offset = 0;
  };
  std::optional<ComparedByte> ComparedByteAt(uint32_t node, const ValueState& state);

  // Returns the function that an indirect call at the node calls.
  Value CalledAt(uint32_t node, const ValueState& state);

  // Returns the value that the instruction compares with 0, where it does: a whole word.
  Value TestedAt(uint32_t node, const ValueState& state) const;

  // A store that Run has seen: `value` into the word at `address` (whatever its base is).
  using StoreVisitor = std::function<void(const Value& address, const Value& value)>;
  void set_store_visitor(StoreVisitor visitor) { on_store_ = std::move(visitor); }

  // Makes numbers in the code values, too (Value::kConstant), and bytes that are loaded as numbers.
  void set_tells_numbers() { tells_numbers_ = true; }

  // Makes the walk follow what names are made of: numbers of symbols, elements of arrays, and both
  // values of a choice by a null pointer. `sums` must outlive the walk.
  void set_follows_names(ValueSums* sums) {
    follows_names_ = true;
    sums_ = sums;
  }

  // Tells what a virtual function returns, by its offset in the vtable and in terms of rdi;
  // nullopt: not known. For objects whose class the code does not tell.
  using VirtualReturn = std::function<std::optional<Value>(int64_t offset)>;
  void set_virtual_return(VirtualReturn returned) { virtual_return_ = std::move(returned); }

  // Names a function that the file has no name for, by its address; empty: it is not known.
  using CalleeName = std::function<std::string_view(uint64_t address)>;
  void set_callee_names(CalleeName names) { callee_names_ = std::move(names); }

  // Runs through a function that is called with `state`, by the rules of this walk. Where it leaves
  // for another one, what lies on the stack is where that one's caller would have it.
  void RunCalled(const FlowGraph& callee, ValueState state, const Visitor& visitor) const;

  // Returns what the function that the graph is of returns, in terms of its registers at the entry.
  Value ReturnValue();

  // Makes sums and differences values, too, and what small functions of the file return.
  void set_sums(ValueSums* sums, const CodeImage* image) {
    sums_ = sums;
    image_ = image;
  }

 private:
  const Disassembled* Decode(uint32_t node) const;
  bool IsChoice(uint32_t node) const;
  void Step(uint32_t node, ValueState* state);
  void StepCall(uint32_t node, ValueState* state);
  // Models calls that only unoptimised code makes. Returns false for any other call.
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
  const CodeImage* image_ = nullptr;  // of functions that are followed
  // Functions that are called, by their addresses; nullopt: this one is not followed.
  std::map<uint64_t, std::optional<FlowGraph>> callees_;
};

}  // namespace proftrace
