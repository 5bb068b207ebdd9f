#include "userspace/base/tar.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace proftrace {
namespace {

// The fields of a head (pax(1), "ustar Interchange Format").
struct Field {
  size_t at;
  size_t size;
};
constexpr Field kName{0, 100};
constexpr Field kMode{100, 8};
constexpr Field kOwner{108, 8};
constexpr Field kGroup{116, 8};
constexpr Field kSize{124, 12};
constexpr Field kTime{136, 12};
constexpr Field kSum{148, 8};
constexpr Field kKind{156, 1};
constexpr Field kMagic{257, 8};
constexpr Field kPrefix{345, 155};
constexpr std::string_view kUstar("ustar\00000", 8);
constexpr std::string_view kMagicStart = "ustar";
// GNU's mark of a number that is too large for octal digits: the bytes behind the mark are the
// number.
constexpr unsigned char kBinary = 0x80;
constexpr size_t kOctalSizeDigits = 11;

using Block = std::span<const std::byte>;

std::string_view TextOf(Block block, Field field) {
  const std::string_view text(reinterpret_cast<const char*>(block.data()) + field.at, field.size);
  return text.substr(0, std::min(text.find('\0'), text.size()));
}

std::optional<uint64_t> NumberOf(Block block, Field field) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(block.data()) + field.at;
  uint64_t number = 0;
  if (bytes[0] == kBinary) {
    for (size_t i = field.size - sizeof(number); i < field.size; ++i)
      number = number << 8 | bytes[i];
    return number;
  }
  bool has_digit = false;
  for (size_t i = 0; i < field.size; ++i) {
    if (bytes[i] >= '0' && bytes[i] <= '7') {
      number = number << 3 | (bytes[i] - '0');
      has_digit = true;
    } else if (bytes[i] != ' ' || has_digit) {
      break;
    }
  }
  return has_digit ? std::optional(number) : std::nullopt;
}

// Returns the sum of a head's bytes. The bytes of the field that holds the sum count as spaces.
uint64_t SumOf(Block block) {
  uint64_t sum = 0;
  for (size_t i = 0; i < kTarBlockBytes; ++i) {
    const bool is_sum = i >= kSum.at && i < kSum.at + kSum.size;
    sum += is_sum ? ' ' : static_cast<unsigned char>(block[i]);
  }
  return sum;
}

bool IsHead(Block block) { return NumberOf(block, kSum) == SumOf(block); }

void Put(std::string* block, Field field, std::string_view text) {
  block->replace(field.at, text.size(), text);
}

std::string Octal(uint64_t number, size_t digits) {
  char text[32];
  snprintf(text, sizeof(text), "%0*llo", static_cast<int>(digits),
           static_cast<unsigned long long>(number));
  return text;
}

}  // namespace

std::string TarBlockOf(const TarHead& head) {
  std::string block(kTarBlockBytes, '\0');
  std::string_view name = head.name;
  if (name.size() > kName.size) {
    // A long name is split at a slash, which is in neither part.
    const size_t slash = name.find('/', name.size() - kName.size - 1);
    if (slash == std::string_view::npos || slash > kPrefix.size || slash + 1 == name.size())
      return "";
    Put(&block, kPrefix, name.substr(0, slash));
    name.remove_prefix(slash + 1);
  }
  Put(&block, kName, name);
  Put(&block, kMode, Octal(head.mode & 07777, kMode.size - 1));
  Put(&block, kOwner, Octal(0, kOwner.size - 1));
  Put(&block, kGroup, Octal(0, kGroup.size - 1));
  const std::string size = Octal(head.bytes, kOctalSizeDigits);
  if (size.size() == kOctalSizeDigits) {
    Put(&block, kSize, size);
  } else {
    block[kSize.at] = static_cast<char>(kBinary);
    for (size_t i = 0; i < sizeof(head.bytes); ++i) {
      block[kSize.at + kSize.size - 1 - i] = static_cast<char>(head.bytes >> (8 * i));
    }
  }
  Put(&block, kTime,
      Octal(static_cast<uint64_t>(std::max<int64_t>(head.time_s, 0)), kOctalSizeDigits));
  Put(&block, kKind, head.is_folder ? "5" : "0");
  Put(&block, kMagic, kUstar);
  const uint64_t sum = SumOf(std::as_bytes(std::span(block)));
  Put(&block, kSum, Octal(sum, 6) + std::string("\0 ", 2));
  return block;
}

bool IsTar(Block block) {
  return block.size() >= kTarBlockBytes && TextOf(block, kMagic).starts_with(kMagicStart) &&
         IsHead(block);
}

TarSearch FindInTar(std::string_view name,
                    const std::function<std::optional<Block>(uint64_t offset)>& read) {
  TarSearch search;
  uint64_t offset = 0;
  for (;;) {
    const std::optional<Block> block = read(offset);
    if (!block.has_value() || block->size() < kTarBlockBytes || !IsHead(*block)) return search;
    const std::optional<uint64_t> bytes = NumberOf(*block, kSize);
    const char kind = static_cast<char>((*block)[kKind.at]);
    std::string_view own = TextOf(*block, kName);
    own.remove_prefix(std::min(own.rfind('/') + 1, own.size()));
    offset += kTarBlockBytes;
    if (!bytes.has_value()) return search;
    if (own == name && (kind == '0' || kind == '\0')) {
      if (search.count++ == 0) search.first = TarPlace{offset, *bytes};
    }
    uint64_t end = 0;
    if (__builtin_add_overflow(offset, *bytes, &end) ||
        __builtin_add_overflow(end, TarPadding(*bytes), &offset)) {
      return search;
    }
  }
}

}  // namespace proftrace
