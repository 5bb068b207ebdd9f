#include "symbols/native_symbols.h"

#include <algorithm>
#include <optional>

#include "symbols/native_unwinder.h"
#include "userspace/base/demangle.h"

namespace proftrace {

NativeSymbols::File NativeSymbols::Load(Pid pid, const MappedFile& mapped) const {
  File file;
  absl::StatusOr<OpenedFile> opened = OpenMappedFile(pid, mapped);
  if (!opened.ok()) return file;
  absl::StatusOr<std::unique_ptr<ElfFile>> elf = ElfFile::Open(std::move(opened->fd));
  if (!elf.ok()) return file;
  file.elf = *std::move(elf);
  const auto add = [&file](const ElfSymbol& symbol) {
    if (!symbol.is_defined || !symbol.is_function || symbol.address == 0) return;
    file.symbols.push_back({symbol.address, symbol.size, symbol.text});
  };
  file.elf->ForEachSymbol(/*full=*/true, add);
  if (file.symbols.empty()) file.elf->ForEachSymbol(/*full=*/false, add);
  std::sort(file.symbols.begin(), file.symbols.end(),
            [](const Symbol& a, const Symbol& b) { return a.address < b.address; });
  return file;
}

std::string NativeSymbols::NameAt(Pid pid, const MappedFile& mapped, uint64_t address) {
  std::unique_ptr<File>& file = files_[{mapped.device, mapped.inode}];
  if (file == nullptr) file = std::make_unique<File>(Load(pid, mapped));
  if (file->elf == nullptr) return "";
  const std::optional<uint64_t> bias = LoadBias(*file->elf, mapped);
  if (!bias) return "";
  const uint64_t own = address - *bias;
  auto after =
      std::upper_bound(file->symbols.begin(), file->symbols.end(), own,
                       [](uint64_t value, const Symbol& symbol) { return value < symbol.address; });
  if (after == file->symbols.begin()) return "";
  const Symbol& symbol = *--after;
  // Assembly may say no size.
  if (symbol.size != 0 && own - symbol.address >= symbol.size) return "";
  const std::string name = symbol.text;
  const std::optional<std::string> demangled = Demangle(name);
  return demangled ? WithoutParameters(*demangled) : name;
}

}  // namespace proftrace
