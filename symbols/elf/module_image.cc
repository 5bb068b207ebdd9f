#include "symbols/elf/module_image.h"

#include <algorithm>

namespace proftrace {

ModuleImage::ModuleImage(ElfFile* file, Symbols symbols)
    : file_(file), unwind_(UnwindTable::Read(*file_)) {
  const auto is_function = [](const ElfSymbol& symbol) {
    return symbol.is_function && symbol.is_defined && symbol.address != 0;
  };
  // The functions are counted first, because a growing list would take twice the memory. A libtorch
  // has half a million.
  size_t count = 0;
  const bool has_all = symbols == Symbols::kAll;
  for (const bool full : {false, true}) {
    if (full && !has_all) break;
    file_->ForEachSymbol(full,
                         [&](const ElfSymbol& symbol) { count += is_function(symbol) ? 1 : 0; });
  }
  functions_.reserve(count);
  const auto add = [&](const ElfSymbol& symbol) {
    if (is_function(symbol)) functions_.push_back({symbol.address, symbol.size, symbol.text});
  };
  file_->ForEachSymbol(/*full=*/false, add);
  const size_t exported = functions_.size();
  if (has_all) file_->ForEachSymbol(/*full=*/true, add);
  has_full_symbols_ = functions_.size() > exported;
  // Where several symbols have one address, the exported one comes first and stays.
  std::stable_sort(functions_.begin(), functions_.end(),
                   [](const Function& a, const Function& b) { return a.start < b.start; });
  functions_.erase(
      std::unique(functions_.begin(), functions_.end(),
                  [](const Function& a, const Function& b) { return a.start == b.start; }),
      functions_.end());
}

size_t ModuleImage::ReadCode(uint64_t address, void* buffer, size_t bytes) const {
  return file_->ReadAddress(address, buffer, bytes);
}

std::string_view ModuleImage::CalleeName(uint64_t address) const {
  const auto& stubs = file_->PltNames();
  if (const auto found = stubs.find(address); found != stubs.end()) return found->second;
  const auto at = std::lower_bound(functions_.begin(), functions_.end(), address,
                                   [](const Function& f, uint64_t a) { return f.start < a; });
  if (at == functions_.end() || at->start != address) return {};
  return at->name;
}

std::string_view ModuleImage::SlotName(uint64_t address) const {
  const auto& slots = file_->SlotNames();
  const auto found = slots.find(address);
  return found == slots.end() ? std::string_view() : found->second;
}

bool ModuleImage::IsPltStub(uint64_t address) const { return file_->PltNames().contains(address); }

std::optional<FunctionRange> ModuleImage::UnwindRangeAt(uint64_t address) const {
  const auto range = unwind_.Find(*file_, address);
  if (!range) return std::nullopt;
  return FunctionRange{range->first, range->second, CalleeName(range->first)};
}

std::optional<uint64_t> ModuleImage::UnwindRecordAt(uint64_t address) const {
  return unwind_.RecordAt(address);
}

std::optional<FunctionRange> ModuleImage::FunctionAt(uint64_t address) const {
  const auto after = std::upper_bound(functions_.begin(), functions_.end(), address,
                                      [](uint64_t a, const Function& f) { return a < f.start; });
  if (after != functions_.begin()) {
    const Function& function = *(after - 1);
    if (address - function.start < function.size) {
      return FunctionRange{function.start, function.start + function.size, function.name};
    }
  }
  return UnwindRangeAt(address);
}

}  // namespace proftrace
