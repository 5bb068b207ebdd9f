#include "userspace/patch/code_audit.h"

#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "symbols/plan/process.h"
#include "symbols/process/process_maps.h"
#include "symbols/x86/instruction.h"
#include "userspace/base/exit_status.h"
#include "userspace/inject/loader_places.h"
#include "userspace/inject/torn_jump.h"
#include "userspace/patch/private_pages.h"

namespace proftrace {
namespace {

constexpr uint8_t kNop = 0x90;
constexpr uint64_t kMostRunBytes = 1 << 20;  // the most bytes that are compared at once

// A run of pages: the bytes that the process has there now, and those of its file.
struct Run {
  uint64_t address = 0;
  std::vector<uint8_t> now;
  std::vector<uint8_t> file;
};

class Audit {
 public:
  explicit Audit(const std::vector<Mapping>& mappings) : mappings_(mappings) {}

  void Look(const Run& run, const Mapping& mapping) {
    for (size_t i = 0; i < run.now.size(); ++i) {
      if (run.now[i] == run.file[i]) continue;
      if (const std::optional<size_t> end = EndOfJump(run, i); end.has_value()) {
        ++result_.jumps;
        i = *end - 1;
      } else if (run.now[i] == kBreakpointOpcode) {
        ++result_.breakpoints;
      } else {
        AddTorn(mapping, run.address + i);
        // The other bytes of a torn jump are not counted as places of their own.
        i += sizeof(JumpPlace) - 1;
      }
    }
  }
  CodeAudit Take() { return std::move(result_); }

 private:
  bool IsOwnCode(uint64_t address) const {
    return std::any_of(mappings_.begin(), mappings_.end(), [address](const Mapping& mapping) {
      return mapping.executable && mapping.inode == 0 && mapping.start <= address &&
             address < mapping.end;
    });
  }

  // Returns the index behind the whole jump that byte `i` is a part of, and behind the nops that
  // fill its place up. nullopt: the byte belongs to no jump.
  std::optional<size_t> EndOfJump(const Run& run, size_t i) const {
    const size_t first = i - std::min(i, sizeof(JumpPlace) - 1);
    for (size_t begin = first; begin <= i && begin + sizeof(JumpPlace) <= run.now.size(); ++begin) {
      // The kernel's breakpoint may lie on the jump's first byte.
      if (run.now[begin] != kJumpOpcode && run.now[begin] != kBreakpointOpcode) continue;
      int32_t distance = 0;
      std::memcpy(&distance, run.now.data() + begin + 1, sizeof(distance));
      size_t end = begin + sizeof(JumpPlace);
      if (!IsOwnCode(run.address + end + static_cast<uint64_t>(int64_t{distance}))) continue;
      while (end < run.now.size() && run.now[end] == kNop && run.file[end] != kNop) ++end;
      return end;
    }
    return std::nullopt;
  }

  void AddTorn(const Mapping& mapping, uint64_t address) {
    if (result_.torn++ > 0) return;
    result_.first_file = mapping.path;
    result_.first_offset = address - mapping.start + mapping.file_offset;
  }

  const std::vector<Mapping>& mappings_;
  CodeAudit result_;
};

}  // namespace

absl::StatusOr<CodeAudit> AuditCode(Pid pid) {
  const absl::StatusOr<std::vector<Mapping>> mappings = ReadMaps(pid);
  if (!mappings.ok()) return mappings.status();
  const absl::StatusOr<WritableMemory> memory = WritableMemory::Open(pid);
  if (!memory.ok()) return memory.status();
  const PrivatePages pages(pid);
  Audit audit(*mappings);
  for (const Mapping& mapping : *mappings) {
    if (!mapping.executable || mapping.inode == 0) continue;
    for (const auto& [begin, end] : pages.Find(mapping.start, mapping.end, kMostRunBytes)) {
      Run run{begin, std::vector<uint8_t>(end - begin), std::vector<uint8_t>(end - begin)};
      if (!memory->Read(begin, run.now.data(), run.now.size()) ||
          !ReadMappedFile(pid, *mappings, begin, run.file.data(), run.file.size())) {
        continue;
      }
      audit.Look(run, mapping);
    }
  }
  return audit.Take();
}

absl::Status CheckCode(Pid pid) {
  const absl::StatusOr<CodeAudit> audit = AuditCode(pid);
  if (!audit.ok()) return audit.status();
  if (audit->torn == 0) return absl::OkStatus();
  return Fail(ExitCode::kHostUnfit,
              absl::StrCat("the code of PID ", Raw(pid), " differs from its files at ", audit->torn,
                           audit->torn == 1 ? " place" : " places", " (the first is ",
                           audit->first_file, " at file offset 0x", absl::Hex(audit->first_offset),
                           "), and no breakpoint or whole jump explains it; unless something else "
                           "changes the code of this process, restart it before it runs there"));
}

}  // namespace proftrace
