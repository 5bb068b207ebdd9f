#include "symbols/plan/program_identity.h"

#include <absl/strings/escaping.h>
#include <absl/strings/str_cat.h>
#include <capstone/capstone.h>
#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "userspace/base/of_this_process.h"

namespace proftrace {
namespace {

uint64_t RoundUp4(uint64_t value) { return (value + 3) & ~uint64_t{3}; }

std::string BuildIdOf(std::string_view notes) {
  ElfW(Nhdr) note;
  while (notes.size() >= sizeof(note)) {
    std::memcpy(&note, notes.data(), sizeof(note));
    notes.remove_prefix(sizeof(note));
    const uint64_t name = RoundUp4(note.n_namesz);
    const uint64_t bytes = RoundUp4(note.n_descsz);
    if (notes.size() < name + note.n_descsz) break;
    if (note.n_type == NT_GNU_BUILD_ID && notes.substr(0, 4) == std::string_view("GNU", 4)) {
      return absl::BytesToHexString(absl::string_view(notes.data() + name, note.n_descsz));
    }
    notes.remove_prefix(std::min<uint64_t>(notes.size(), name + bytes));
  }
  return "";
}

struct Search {
  uint64_t address = 0;  // of any function in the object
  std::string build_id;
};

int LookAtObject(dl_phdr_info* object, size_t, void* data) {
  auto* search = static_cast<Search*>(data);
  bool is_it = false;
  std::string build_id;
  for (size_t i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object->dlpi_phdr[i];
    const uint64_t begin = object->dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_LOAD) is_it |= search->address - begin < part.p_memsz;
    if (part.p_type == PT_NOTE && build_id.empty()) {
      build_id = BuildIdOf({reinterpret_cast<const char*>(begin), part.p_memsz});
    }
  }
  if (!is_it) return 0;
  search->build_id = build_id;
  return 1;
}

template <typename Function>
std::string BuildIdAt(Function* function) {
  Search search;
  search.address = reinterpret_cast<uint64_t>(function);
  dl_iterate_phdr(LookAtObject, &search);
  return search.build_id;
}

struct Identity {
  std::string text = [] {
    const std::string program = BuildIdAt(&ProgramIdentity);
    const std::string disassembler = BuildIdAt(&cs_disasm);
    const bool is_known = !program.empty() && !disassembler.empty();
    return is_known ? absl::StrCat(program, " ", disassembler) : std::string();
  }();
};

constinit OfThisProcess<Identity> program_identity;

}  // namespace

const std::string& ProgramIdentity() { return program_identity.Get().text; }

}  // namespace proftrace
