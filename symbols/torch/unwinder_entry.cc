#include "symbols/torch/unwinder_entry.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "bpf/abi/records.h"
#include "symbols/x86/instruction.h"

namespace proftrace {
namespace {

constexpr size_t kMostAccessorBytes = 32;
// How many bytes around one accessor of a context are searched for the others, which follow each
// other in libgcc's unwind-dw2.c.
constexpr size_t kNeighbours = 1024;
constexpr size_t kChunkBytes = size_t{1} << 20;
// The limit for one file. No larger file with a copy of the unwinder is known.
constexpr uint64_t kMostScannedBytes = uint64_t{256} << 20;
constexpr size_t kMostHidden = 16;
// How many functions of the right form are looked at closely in a chunk. Other code has such
// accessors too, and a hostile file may have many.
constexpr size_t kMostCandidates = 1000;

constexpr uint8_t kEndbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
constexpr uint8_t kPushFrame[] = {0x55, 0x48, 0x89, 0xe5};  // push %rbp; mov %rsp, %rbp
constexpr uint8_t kPopFrame[] = {0x5d};
constexpr uint8_t kReturn[] = {0xc3};
constexpr uint8_t kSetter[] = {0x48, 0x89, 0xb7};  // mov %rsi, displacement(%rdi)
constexpr uint8_t kGetter[] = {0x48, 0x8b, 0x87};  // mov displacement(%rdi), %rax

using Code = std::span<const uint8_t>;

bool Consume(Code* code, Code bytes) {
  if (code->size() < bytes.size() || !std::equal(bytes.begin(), bytes.end(), code->begin())) {
    return false;
  }
  *code = code->subspan(bytes.size());
  return true;
}

// Returns the displacement in a function that does nothing but `mov` (kSetter, kGetter); nullopt:
// it is another function.
std::optional<int32_t> ReadAccessor(Code code, Code mov) {
  Consume(&code, kEndbr64);
  const bool has_frame = Consume(&code, kPushFrame);
  int32_t displacement = 0;
  if (!Consume(&code, mov) || code.size() < sizeof(displacement)) return std::nullopt;
  std::memcpy(&displacement, code.data(), sizeof(displacement));
  code = code.subspan(sizeof(displacement));
  if (has_frame && !Consume(&code, kPopFrame)) return std::nullopt;
  if (!Consume(&code, kReturn)) return std::nullopt;
  return displacement;
}

std::optional<int32_t> ReadAccessor(const CodeImage& image, uint64_t function, Code mov) {
  uint8_t bytes[kMostAccessorBytes];
  return ReadAccessor({bytes, image.ReadCode(function, bytes, sizeof(bytes))}, mov);
}

// Returns the probe for the setter of `ra`, at the offset `address_at`. libgcc's struct
// _Unwind_Context has: ..., void *cfa; void *ra; void *lsda; ...
std::optional<RowProbe> EntryProbe(int32_t address_at) {
  const int32_t stack_pointer = address_at - 8;
  if (stack_pointer <= 0 || stack_pointer > INT16_MAX) return std::nullopt;
  RowProbe probe;
  probe.role = abi::PT_ROLE_UNWOUND;
  probe.handle_register = kRdi;
  probe.handle_offset = static_cast<int16_t>(stack_pointer);
  return probe;
}

// Whether `code` has a getter with that displacement.
bool HasGetter(Code code, int32_t displacement) {
  uint8_t wanted[sizeof(kGetter) + sizeof(displacement)];
  std::memcpy(wanted, kGetter, sizeof(kGetter));
  std::memcpy(wanted + sizeof(kGetter), &displacement, sizeof(displacement));
  for (auto at = code.begin(); at != code.end(); ++at) {
    at = std::search(at, code.end(), std::begin(wanted), std::end(wanted));
    if (at == code.end()) break;
    Code rest = code.subspan(static_cast<size_t>(at - code.begin()) + sizeof(wanted));
    Consume(&rest, kPopFrame);
    if (Consume(&rest, kReturn)) return true;
  }
  return false;
}

// Returns the begin of the function whose `mov` lies at `at`.
size_t FunctionBegin(Code code, size_t at) {
  for (const Code prologue : {Code(kPushFrame), Code(kEndbr64)}) {
    if (at < prologue.size()) continue;
    Code before = code.subspan(at - prologue.size());
    if (Consume(&before, prologue)) at -= prologue.size();
  }
  return at;
}

// Whether a file may have an unwinder of its own: an unwinder looks for the tables of all
// libraries, and a file that has one does not import another.
bool MayHideUnwinder(ElfFile& file) {
  bool looks_for_tables = false;
  bool imports_unwinder = false;
  file.ForEachSymbol(/*full=*/false, [&](const ElfSymbol& symbol) {
    const std::string_view name = symbol.name();
    if (symbol.is_defined || name.empty() || (name[0] != 'd' && name[0] != '_')) return;
    looks_for_tables |= name == "dl_iterate_phdr" || name == "_dl_find_object";
    imports_unwinder |= name == "_Unwind_SetIP" || name == "_Unwind_Resume";
  });
  return looks_for_tables && !imports_unwinder;
}

}  // namespace

std::optional<RowProbe> FindUnwinderEntry(const CodeImage& image, uint64_t set_ip,
                                          uint64_t get_cfa) {
  const auto address_at = ReadAccessor(image, set_ip, kSetter);
  const auto stack_pointer = ReadAccessor(image, get_cfa, kGetter);
  if (!address_at || !stack_pointer || int64_t{*address_at} != int64_t{*stack_pointer} + 8) {
    return std::nullopt;
  }
  return EntryProbe(*address_at);
}

std::vector<HiddenUnwinderEntry> FindUnwindersIn(Code code, uint64_t address) {
  std::vector<HiddenUnwinderEntry> found;
  size_t candidates = 0;
  for (auto hit = code.begin(); hit != code.end() && candidates < kMostCandidates; ++hit) {
    hit = std::search(hit, code.end(), std::begin(kSetter), std::end(kSetter));
    if (hit == code.end()) break;
    const size_t begin = FunctionBegin(code, static_cast<size_t>(hit - code.begin()));
    const auto address_at = ReadAccessor(code.subspan(begin), kSetter);
    const std::optional<RowProbe> probe = address_at ? EntryProbe(*address_at) : std::nullopt;
    if (!probe) continue;
    ++candidates;
    const size_t from = begin - std::min(begin, kNeighbours);
    const Code around = code.subspan(from, std::min(code.size() - from, 2 * kNeighbours));
    // The others are _Unwind_GetCFA, _Unwind_GetIP and _Unwind_GetLanguageSpecificData.
    const bool has_others = HasGetter(around, *address_at - 8) && HasGetter(around, *address_at) &&
                            HasGetter(around, *address_at + 8);
    if (has_others) found.push_back({address + begin, *probe});
  }
  return found;
}

std::vector<HiddenUnwinderEntry> FindHiddenUnwinders(ElfFile& file) {
  std::vector<HiddenUnwinderEntry> found;
  if (!MayHideUnwinder(file)) return found;
  uint64_t left = kMostScannedBytes;
  std::vector<uint8_t> bytes(kChunkBytes + 2 * kNeighbours);
  for (const ElfSection* section : file.CodeSections(nullptr)) {
    // The buffer also holds the bytes around the chunk, so that the neighbours of every place in it
    // are there.
    for (uint64_t at = 0; at < section->size && left > 0; at += kChunkBytes) {
      const uint64_t from = at - std::min<uint64_t>(at, kNeighbours);
      const uint64_t end = std::min(section->size, at + kChunkBytes + kNeighbours);
      const size_t got = file.ReadOffset(section->file_offset + from, bytes.data(), end - from);
      left -= std::min<uint64_t>(left, kChunkBytes);
      for (const HiddenUnwinderEntry& entry :
           FindUnwindersIn({bytes.data(), got}, section->address + from)) {
        const uint64_t place = entry.address - section->address;
        const bool is_here = place >= at && place < at + kChunkBytes;
        if (is_here && found.size() < kMostHidden) found.push_back(entry);
      }
    }
  }
  return found;
}

}  // namespace proftrace
