// Turns records of Python's code objects and stacks into the tables of the Timeline. A record of a
// stack holds only what changed since the thread's stack before; code objects and modules come
// once. Not thread-safe.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bpf/abi/python_records.h"
#include "userspace/model/name_limits.h"
#include "userspace/model/python_stack.h"
#include "userspace/stats/ledger.h"

namespace proftrace {

// Returns 0x030b for "3.11.2"; 0: the text is no version.
uint32_t PythonVersionOf(const std::string& text);

class PythonDecoder {
 public:
  // The most entries that are kept. Beyond these, modules are left out, all new stacks are one
  // stack, and a new code object becomes its group (GroupOfName() of its name and its file) or that
  // of all others.
  struct Limits {
    size_t codes = kMostNames;
    size_t frames = kMostPaths;
    size_t modules = kMostNames;
    size_t groups = kMostNameGroups;       // groups of codes
    size_t text_bytes = size_t{64} << 20;  // of all texts of codes
  };

  explicit PythonDecoder(Ledger* ledger) : PythonDecoder(ledger, Limits()) {}
  PythonDecoder(Ledger* ledger, const Limits& limits) : ledger_(ledger), limits_(limits) {}

  // Takes a record of one of the kinds in bpf/abi/python_records.h, which has at least the size
  // that its kind needs. Returns false where its contents are impossible.
  bool OnRecord(std::span<const std::byte> record);
  // Notes that the thread lost records: its stack is not known until the next whole one.
  void OnLoss(uint32_t tid);
  void OnLossAnywhere() { threads_.clear(); }
  // Returns the stack that the thread runs, by the records so far.
  StackId StackOf(uint32_t pid, uint32_t tid) const;

  struct Tables {
    std::vector<PythonFrame> frames;
    std::vector<PythonCode> codes;
    std::vector<PythonModule> modules;
    // How many came when the limits were reached. A stack counts each time that a record tells of
    // it.
    uint64_t group_codes = 0;  // shown as their group
    uint64_t other_codes = 0;
    uint64_t other_modules = 0;
    uint64_t other_stacks = 0;
  };
  // Facts that are needed when all records are decoded. `version_of` returns the version of a
  // process's Python: 0x030b = 3.11; 0 = not known. `paths_of` returns the process's folders of
  // modules (Target::python_paths), `path_of_module` the path of an nn.Module in the outermost one;
  // nullptr: not known.
  struct Facts {
    std::function<uint32_t(Pid)> version_of;
    std::function<std::vector<std::string>(Pid)> paths_of;
    std::function<const std::string*(const PythonModule&, int64_t told_ns)> path_of_module;
  };
  Tables TakeTables(const Facts& facts);

 private:
  // A text or a table of the process, as far as its parts have come.
  struct Part {
    std::string bytes;
    uint32_t total = 0;
    uint8_t width = 1;  // of a character
  };
  struct Code {
    uint32_t id = 0;  // 0 = it stands for many code objects
    Pid pid{};
    int32_t first_line = 0;
    Part parts[4];  // by enum pt_python_part
  };
  struct Thread {
    uint32_t pid = 0;
    std::vector<StackId> frames;  // outermost first
  };
  struct FrameKey {
    StackId parent = kNoStack;
    uint64_t word = 0;  // the code's id, the instruction
    uint32_t module = 0;

    bool operator==(const FrameKey&) const = default;
    template <typename H>
    friend H AbslHashValue(H state, const FrameKey& key) {
      return H::combine(std::move(state), Raw(key.parent), key.word, key.module);
    }
  };

  // Return 1 + an index into codes_; 0: there is no such code.
  uint32_t CodeOf(uint32_t id);
  uint32_t OtherCode();
  bool is_full() const {
    return codes_.size() >= limits_.codes || text_bytes_ >= limits_.text_bytes;
  }
  // Takes a code object that there is no room for. InsteadOf() looks it up.
  void AddLate(uint32_t id, Pid pid, int32_t first_line);
  void AddLateText(const abi::pt_python_text_record& record, std::string_view bytes);
  // Returns the code that stands for a code object that came late, as CodeOf() does: the same code
  // if it is known by another number, else its group or that of all others.
  uint32_t InsteadOf(const Code& late);
  uint32_t GroupCode(const Code& late);
  // Returns the code that is equal to `late` in everything but its number; 0: there is none.
  uint32_t SameCode(const Code& late);
  // Returns the frame's word with the number of the code that stands for its own.
  uint64_t WordOf(uint32_t code, uint64_t word) const;
  // Returns a frame; a new one becomes the last of frames_.
  StackId FrameOf(const FrameKey& key, uint32_t code);
  bool OnText(const abi::pt_python_text_record& record, size_t room);
  bool OnStack(const abi::pt_python_stack_record& record, size_t words);
  // Returns the frame that `words` begin with, which the thread's innermost frame called. Adds the
  // number of its words to `at`. nullopt: the words make no possible frame.
  std::optional<StackId> TakeFrame(const Thread& thread, std::span<const uint64_t> words,
                                   size_t* at);
  bool OnModule(const abi::pt_pair_record& record);
  uint32_t ModuleOf(uint32_t pid, uint64_t object);
  std::string TextOf(const Part& part, bool is_name);

  Ledger* ledger_;
  Limits limits_;
  std::vector<Code> codes_;
  uint32_t other_code_ = 0;  // as CodeOf() returns it; 0 = there is none
  StackId other_stack_ = kNoStack;
  // The last codes that there was no room for, by id. They are kept because a stack that contains
  // such a code comes soon after it.
  struct LateCode {
    Code code;
    uint32_t instead = 0;  // as CodeOf() returns it; 0 = not looked up yet
  };
  absl::flat_hash_map<uint32_t, LateCode> late_codes_;
  size_t late_bytes_ = 0;
  // Hashes of the contents of codes; filled when there is no more room.
  absl::flat_hash_map<size_t, uint32_t> code_hashes_;
  absl::flat_hash_map<std::string, uint32_t> groups_;  // by process, file and name
  uint64_t group_codes_ = 0;
  uint64_t other_codes_ = 0;
  uint64_t other_modules_ = 0;
  uint64_t other_stacks_ = 0;
  size_t text_bytes_ = 0;
  absl::flat_hash_map<uint32_t, uint32_t> code_numbers_;  // by the record's id
  std::vector<PythonFrame> frames_ = std::vector<PythonFrame>(1);
  absl::flat_hash_map<FrameKey, StackId> frame_ids_;
  std::vector<PythonModule> modules_;
  std::vector<int64_t> modules_told_ns_;
  absl::flat_hash_map<std::pair<uint32_t, uint64_t>, uint32_t> module_numbers_;  // pid, handle
  absl::flat_hash_map<uint32_t, uint32_t> told_modules_;  // by tid: the last PT_PYTHON_MODULE's
  absl::flat_hash_map<uint32_t, Thread> threads_;         // by tid
};

}  // namespace proftrace
