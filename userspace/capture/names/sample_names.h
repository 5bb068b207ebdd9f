// Turns samples into records: the stack that was read of a thread becomes frames with names, while
// the process lives. A frame that was recorded before is referred to by its number. May be used by
// one thread.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "bpf/abi/sample_records.h"
#include "symbols/elf/native_unwinder.h"
#include "symbols/process/process_memory.h"
#include "symbols/python/python_layout.h"
#include "userspace/model/ids.h"
#include "userspace/model/python_lines.h"

namespace proftrace {

// The facts by which a process is read.
struct SampledProcess {
  std::optional<PythonLayout> python;  // nullopt: only native frames are read
  uint32_t python_version = 0;         // 0x030b = 3.11
  std::string python_file;  // the file that the interpreter lies in, as in /proc/PID/maps
};

// The stack that was read of a thread. Samples refer to it by its number.
struct SampleReading {
  uint64_t number = 0;
  Pid pid{};
  Tid tid{};
  std::vector<abi::pt_sampled_frame> frames;  // innermost first
  abi::pt_user_registers registers{};
  std::vector<uint8_t> stack;  // from registers.sp on
  uint32_t flags = 0;          // of enum pt_python_stack_flag
};

struct NamedSample {
  uint32_t frame = 0;  // the innermost frame's id; 0: there is none
  uint8_t flags = 0;   // of enum pt_sample_flag
};

class SampleNames {
 public:
  void AddProcess(Pid pid, SampledProcess process);
  void RemoveProcess(Pid pid);
  bool Knows(Pid pid) const { return processes_.contains(Raw(pid)); }

  // Names a sample's frames. Appends to `records` the records that the sample needs and that were
  // not made before.
  NamedSample Name(const SampleReading& sample, std::vector<std::byte>* records);

 private:
  // A code object as it was when its frame was read. Another one may lie at the same address later.
  struct CodeKey {
    uint64_t code = 0;
    uint64_t file = 0;
    uint64_t name = 0;

    bool operator==(const CodeKey&) const = default;
    template <typename H>
    friend H AbslHashValue(H state, const CodeKey& key) {
      return H::combine(std::move(state), key.code, key.file, key.name);
    }
  };
  struct Code {
    uint32_t function = 0;  // 0: the code object is not there now; UINT32_MAX: it is hidden
    std::optional<PythonLines> lines;
  };
  // Tells whether a native function belongs to the interpreter, and whether it is the function that
  // runs bytecode.
  enum class NativeKind : uint8_t { kOther, kInterpreter, kEvaluation };
  struct Native {
    uint32_t function = 0;
    NativeKind kind = NativeKind::kOther;
  };
  struct Process {
    explicit Process(Pid pid) : memory(pid) {}
    SampledProcess facts;
    ProcessMemory memory;
    std::unique_ptr<NativeUnwinder> unwinder;  // null: no unwinder could be made
    absl::flat_hash_map<CodeKey, Code> codes;
    absl::flat_hash_map<uint64_t, Native> natives;  // by address
    uint64_t generation = 0;                        // the unwinder's, when `natives` were found
  };
  struct Frame {
    uint32_t function = 0;
    int32_t line = 0;
  };
  const Code& CodeOf(Process* process, Pid pid, const abi::pt_sampled_frame& frame,
                     std::vector<std::byte>* records);
  uint32_t FunctionOf(Pid pid, abi::pt_sample_frame_kind kind, const std::string& name,
                      const std::string& file, int32_t first_line, std::vector<std::byte>* records);
  uint32_t FrameOf(Pid pid, uint32_t parent, const Frame& frame, std::vector<std::byte>* records);
  // Appends the Python frames that one call of the interpreter runs. Returns false where no frame
  // is left.
  bool AddPython(Process* process, const SampleReading& sample, size_t* next,
                 std::vector<Frame>* frames, std::vector<std::byte>* records);
  void AddNative(Process* process, const SampleReading& sample, std::vector<Frame>* frames,
                 uint8_t* flags, std::vector<std::byte>* records);
  const Native& NativeAt(Process* process, Pid pid, uint64_t address,
                         std::vector<std::byte>* records);

  NativeSymbols symbols_;
  absl::flat_hash_map<uint32_t, std::unique_ptr<Process>> processes_;  // by pid
  absl::flat_hash_map<std::tuple<uint32_t, int, std::string, std::string, int32_t>, uint32_t>
      function_ids_;
  uint32_t last_function_ = 0;
  uint32_t last_frame_ = 0;
  absl::flat_hash_map<std::tuple<uint32_t, uint32_t, int32_t>, uint32_t> frame_ids_;
};

}  // namespace proftrace
