// Records of Python's code objects and stacks to the tables of the Timeline. Stacks of a thread
// come as what is new of each; code objects and modules come once. Not thread-safe.
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

// Returns 0x030b for "3.11.2"; 0: the text says no version.
uint32_t PythonVersionOf(const std::string& text);

class PythonDecoder {
 public:
  // What comes when there are so many has no module, is one stack, or is a function of its group
  // (GroupOfName() of its name and its file) or of all others.
  struct Limits {
    size_t codes = kMostNames;
    size_t frames = kMostPaths;
    size_t modules = kMostNames;
    size_t groups = kMostNameGroups;       // of codes
    size_t text_bytes = size_t{64} << 20;  // of codes
  };

  explicit PythonDecoder(Ledger* ledger) : PythonDecoder(ledger, Limits()) {}
  PythonDecoder(Ledger* ledger, const Limits& limits) : ledger_(ledger), limits_(limits) {}

  // Takes a record of one of the kinds in bpf/abi/python_records.h, with its smallest size at
  // least. False when its contents are impossible.
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
    // How many came too late to be kept. A stack counts each time that it is told of.
    uint64_t group_codes = 0;  // told as their group
    uint64_t other_codes = 0;
    uint64_t other_modules = 0;
    uint64_t other_stacks = 0;
  };
  // At the end. `version_of`: of a process's Python, 0x030b = 3.11; 0 = not known. `paths_of`: its
  // folders of modules (Target::python_paths). `path_of_module`: where a module hangs, if known.
  struct Facts {
    std::function<uint32_t(Pid)> version_of;
    std::function<std::vector<std::string>(Pid)> paths_of;
    std::function<const std::string*(const PythonModule&, int64_t told_ns)> path_of_module;
  };
  Tables TakeTables(const Facts& facts);

 private:
  // A text or a table of the process's, as it came.
  struct Part {
    std::string bytes;
    uint32_t total = 0;
    uint8_t width = 1;  // of a character
  };
  struct Code {
    uint32_t id = 0;  // 0 = it stands for many
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
  // Takes a code object that there is no room for; InsteadOf() asks for it.
  void AddLate(uint32_t id, Pid pid, int32_t first_line);
  void AddLateText(const abi::pt_python_text_record& record, std::string_view bytes);
  // Returns what stands for a code object that came late, as CodeOf() has it: it itself, if it was
  // told of before by another number.
  uint32_t InsteadOf(const Code& late);
  uint32_t GroupCode(const Code& late);
  // Returns the code that is the same but for its number; 0: there is none.
  uint32_t SameCode(const Code& late);
  // Returns the frame's word with the number of the code that stands for its own.
  uint64_t WordOf(uint32_t code, uint64_t word) const;
  // Returns a frame; a new one becomes the last of frames_.
  StackId FrameOf(const FrameKey& key, uint32_t code);
  bool OnText(const abi::pt_python_text_record& record, size_t room);
  bool OnStack(const abi::pt_python_stack_record& record, size_t words);
  // Returns the frame that `words` begin with, called by the thread's innermost one; adds to `at`
  // how many words it has. nullopt when there can be no such frame.
  std::optional<StackId> TakeFrame(const Thread& thread, std::span<const uint64_t> words,
                                   size_t* at);
  bool OnModule(const abi::pt_pair_record& record);
  uint32_t ModuleOf(uint32_t pid, uint64_t object);
  std::string TextOf(const Part& part, bool is_name);

  Ledger* ledger_;
  Limits limits_;
  std::vector<Code> codes_;
  uint32_t other_code_ = 0;  // as CodeOf() has it; 0 = there is none
  StackId other_stack_ = kNoStack;
  // Codes for which there was no room, by id: the last ones. A stack that has one comes soon.
  struct LateCode {
    Code code;
    uint32_t instead = 0;  // as CodeOf() has it; 0 = not asked for yet
  };
  absl::flat_hash_map<uint32_t, LateCode> late_codes_;
  size_t late_bytes_ = 0;
  absl::flat_hash_map<size_t, uint32_t> code_hashes_;  // of the contents of codes; filled when full
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
