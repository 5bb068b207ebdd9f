#include "symbols/elf/native_symbols.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "userspace/base/demangle.h"

namespace proftrace {

namespace {

// The limit of memory for all files together. A PyTorch job has 300 MB of symbols and names. Beyond
// the limit, further files get no names.
constexpr uint64_t kMostKeptBytes = uint64_t{1} << 30;

}  // namespace

NativeSymbols::File& NativeSymbols::FileOf(const MappedFile& mapped) {
  std::unique_ptr<File>& file = files_[{mapped.device, mapped.inode}];
  if (file == nullptr) file = std::make_unique<File>();
  return *file;
}

Elf* NativeSymbols::ElfOf(Pid pid, const MappedFile& mapped) {
  File& file = FileOf(mapped);
  if (file.raw == nullptr) {
    absl::StatusOr<OpenedFile> opened = OpenMappedFile(pid, mapped);
    if (!opened.ok()) return nullptr;
    // Remote files are left out, because libelf would wait for their file system for ever.
    if (opened->file->is_remote() || !ElfFile::HasBoundedHead(*opened->file)) return nullptr;
    file.held = std::move(opened->file);
    file.raw.reset(elf_begin(file.held->fd(), ELF_C_READ, nullptr));
    if (file.raw == nullptr) return nullptr;
  }
  return elf_begin(file.held->fd(), ELF_C_READ, file.raw.get());
}

void NativeSymbols::OpenElf(Pid pid, const MappedFile& mapped, File* file) {
  if (std::exchange(file->was_opened, true)) return;
  absl::StatusOr<OpenedFile> opened = OpenMappedFile(pid, mapped);
  if (!opened.ok()) return;
  absl::StatusOr<std::unique_ptr<ElfFile>> elf = ElfFile::Open(std::move(opened->file));
  if (elf.ok()) file->elf = *std::move(elf);
}

MemoryRange NativeSymbols::LoadedRange(Pid pid, const MappedFile& mapped) {
  const std::vector<Mapping>& all = mapped.mappings;
  bool is_plain = true;
  for (size_t i = 1; i < all.size(); ++i) {
    is_plain &= all[i].start == all[i - 1].end && all[i].file_offset >= all[i - 1].file_offset;
  }
  uint64_t first = all.front().start;
  uint64_t last = all.back().end;
  if (!is_plain) {
    File* file = &FileOf(mapped);
    OpenElf(pid, mapped, file);
    const auto place = file->elf == nullptr ? std::nullopt : FindLoadedPlace(*file->elf, mapped);
    if (!place) return {first, last - first};
    first = last = place->mappings.front().start;
    for (const Mapping& mapping : place->mappings) {
      first = std::min(first, mapping.start);
      last = std::max(last, mapping.end);
    }
  }
  return {first, last - first};
}

void NativeSymbols::LoadSymbols(Pid pid, const MappedFile& mapped, File* file) {
  file->has_symbols = true;
  OpenElf(pid, mapped, file);
  if (file->elf == nullptr) return;
  const auto add = [file](const ElfSymbol& symbol) {
    if (!symbol.is_defined || !symbol.is_function || symbol.address == 0) return;
    file->symbols.push_back({symbol.address, symbol.size, symbol.text});
  };
  file->elf->ForEachSymbol(/*full=*/true, add);
  file->elf->ForgetFullSymbols();
  if (file->symbols.empty()) file->elf->ForEachSymbol(/*full=*/false, add);
  std::sort(file->symbols.begin(), file->symbols.end(),
            [](const Symbol& a, const Symbol& b) { return a.address < b.address; });
}

std::string NativeSymbols::NameAt(Pid pid, const MappedFile& mapped, uint64_t address) {
  File* file = &FileOf(mapped);
  if (!file->has_symbols && kept_bytes_ < kMostKeptBytes) {
    LoadSymbols(pid, mapped, file);
    if (file->elf != nullptr) kept_bytes_ += file->elf->kept_bytes();
  }
  if (file->elf == nullptr) return "";
  const std::optional<uint64_t> bias = LoadBias(*file->elf, mapped);
  if (!bias) return "";
  const uint64_t own = address - *bias;
  auto after =
      std::upper_bound(file->symbols.begin(), file->symbols.end(), own,
                       [](uint64_t value, const Symbol& symbol) { return value < symbol.address; });
  if (after == file->symbols.begin()) return "";
  const Symbol& symbol = *--after;
  // Symbols of assembly code may have no size.
  if (symbol.size != 0 && own - symbol.address >= symbol.size) return "";
  const std::string name = symbol.text;
  const std::optional<std::string> demangled = Demangle(name);
  return demangled ? WithoutParameters(*demangled) : name;
}

std::string WithoutParameters(const std::string& name) {
  const size_t close = name.rfind(')');
  if (close == std::string::npos) return name;
  size_t open = 0;
  for (size_t i = close + 1, depth = 0; i-- > 0;) {
    if (name[i] == ')') ++depth;
    if (name[i] == '(' && --depth == 0) {
      open = i;
      break;
    }
  }
  // "(anonymous namespace)", "operator()" are parts of names.
  const std::string_view inside(name.data() + open, close + 1 - open);
  constexpr std::string_view kCallOperator = "operator";
  const bool is_operator =
      open >= kCallOperator.size() &&
      name.compare(open - kCallOperator.size(), kCallOperator.size(), kCallOperator) == 0;
  if (open == 0 || inside == "(anonymous namespace)" || (inside == "()" && is_operator)) {
    return name;
  }
  return name.substr(0, open);
}

}  // namespace proftrace
