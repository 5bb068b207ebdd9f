#include "symbols/elf/link_map.h"

#include <elf.h>
#include <link.h>

#include <cstddef>
#include <string>

#include "symbols/process/process_maps.h"
#include "userspace/base/byte_view.h"

namespace proftrace {
namespace {

constexpr size_t kMaxHeaders = 128;
constexpr size_t kMaxDynamic = 512;
constexpr int kMaxLoaded = 65536;

// The place of the program's headers in the process.
struct Headers {
  uint64_t address = 0;
  uint64_t count = 0;
};

Headers FindHeaders(Pid pid) {
  constexpr size_t kMostBytes = 4096;
  const std::string vector =
      ReadSmallFile("/proc/" + std::to_string(Raw(LivingThread(pid))) + "/auxv", kMostBytes);
  Headers headers;
  for (size_t at = 0; at < vector.size(); at += sizeof(Elf64_auxv_t)) {
    const auto entry = ByteView(vector).Get<Elf64_auxv_t>(at);
    if (!entry) break;
    if (entry->a_type == AT_PHDR) headers.address = entry->a_un.a_val;
    if (entry->a_type == AT_PHNUM) headers.count = entry->a_un.a_val;
  }
  return headers;
}

// Returns the address of the program's dynamic section; 0 = it has none.
uint64_t FindDynamic(const TargetMemory& memory, const Headers& headers) {
  uint64_t bias = 0;
  uint64_t dynamic = 0;
  for (uint64_t i = 0; i < headers.count && i < kMaxHeaders; ++i) {
    Elf64_Phdr header;
    if (!memory.Read(headers.address + i * sizeof(header), &header, sizeof(header))) return 0;
    if (header.p_type == PT_PHDR) bias = headers.address - header.p_vaddr;
    if (header.p_type == PT_DYNAMIC) dynamic = header.p_vaddr;
  }
  return dynamic == 0 ? 0 : bias + dynamic;
}

}  // namespace

uint64_t FindLinkerDebug(Pid pid, const TargetMemory& memory) {
  const uint64_t dynamic = FindDynamic(memory, FindHeaders(pid));
  if (dynamic == 0) return 0;
  for (uint64_t i = 0; i < kMaxDynamic; ++i) {
    Elf64_Dyn entry;
    if (!memory.Read(dynamic + i * sizeof(entry), &entry, sizeof(entry))) return 0;
    if (entry.d_tag == DT_NULL) return 0;
    if (entry.d_tag == DT_DEBUG) return entry.d_un.d_ptr;
  }
  return 0;
}

uint64_t LastLoaded(const TargetMemory& memory, uint64_t linker_debug) {
  uint64_t entry = memory.ReadWord(linker_debug + offsetof(r_debug, r_map)).value_or(0);
  if (entry == 0) return 0;
  for (int i = 0; i < kMaxLoaded; ++i) {
    const auto next = memory.ReadWord(entry + offsetof(link_map, l_next));
    if (!next) return 0;
    if (*next == 0) return entry;
    entry = *next;
  }
  return 0;  // the list is a circle, made by a hostile process
}

uint64_t NextNamespace(const TargetMemory& memory, uint64_t linker_debug) {
  // A struct r_debug_extended, which headers before 2.35 do not have, is an r_debug and then the
  // pointer to the next one.
  constexpr int kExtended = 2;
  int version = 0;
  if (!memory.Read(linker_debug + offsetof(r_debug, r_version), &version, sizeof(version)) ||
      version < kExtended) {
    return 0;
  }
  return memory.ReadWord(linker_debug + sizeof(r_debug)).value_or(0);
}

bool HasSuccessor(const TargetMemory& memory, uint64_t entry) {
  return memory.ReadWord(entry + offsetof(link_map, l_next)).value_or(1) != 0;
}

}  // namespace proftrace
