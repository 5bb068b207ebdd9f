#include "symbols/elf/kernel_types.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace proftrace {
namespace {

// An OperatorDef has 6112 bytes in 2.11.
constexpr uint64_t kLargestOperator = 8192;
constexpr size_t kLongestType = 4096;
constexpr size_t kPiece = 256;
constexpr uint64_t kLeastAddress = 0x10000;

bool IsInType(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

}  // namespace

// A std::type_info is a vtable and a name. A '*' at the begin of a name, which marks a name that is
// compared by its address, is dropped.
std::optional<std::string> KernelTypes::TypeAt(uint64_t address) const {
  if (address < kLeastAddress || address % 8 != 0) return std::nullopt;
  const auto name = memory_.ReadWord(address + 8);
  if (!name || *name < kLeastAddress) return std::nullopt;
  std::string text;
  while (text.size() < kLongestType) {
    char piece[kPiece];
    // A read ends at the end of the page, because the next page may not be mapped.
    const uint64_t at = *name + text.size();
    const size_t bytes = std::min<size_t>(kPiece, 4096 - at % 4096);
    if (!memory_.Read(at, piece, bytes)) return std::nullopt;
    const std::string_view read(piece, bytes);
    const size_t end = read.find('\0');
    text.append(read.substr(0, end));
    if (end != std::string_view::npos) break;
    if (text[0] != 'F' && text[0] != '*') return std::nullopt;
  }
  if (text.starts_with('*')) text.erase(0, 1);
  const bool is_function = text.size() > 2 && text.size() < kLongestType && text.starts_with('F') &&
                           text.ends_with('E') && std::all_of(text.begin(), text.end(), IsInType);
  return is_function ? std::optional(text) : std::nullopt;
}

std::optional<std::string> KernelTypes::TypeOf(uint64_t operator_def) {
  if (offset_ != 0) {
    const auto word = memory_.ReadWord(operator_def + offset_);
    return word ? TypeAt(*word) : std::nullopt;
  }
  std::vector<uint64_t> words(kLargestOperator / 8);
  while (!words.empty() && !memory_.Read(operator_def, words.data(), words.size() * 8)) {
    words.resize(words.size() / 2);
  }
  for (size_t i = 0; i < words.size(); ++i) {
    auto type = TypeAt(words[i]);
    if (!type) continue;
    offset_ = i * 8;
    return type;
  }
  return std::nullopt;
}

}  // namespace proftrace
