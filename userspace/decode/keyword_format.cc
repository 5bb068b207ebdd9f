#include "userspace/decode/keyword_format.h"

#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "bpf/abi/records.h"
#include "userspace/base/text.h"
#include "userspace/model/python_stack.h"

namespace proftrace {
namespace {

class KeywordReader {
 public:
  explicit KeywordReader(std::span<const uint64_t> words) : words_(words) {}

  bool at_end() const { return words_.empty(); }
  std::optional<KeywordValue> Next();

 private:
  std::optional<uint64_t> Word() {
    if (words_.empty()) return std::nullopt;
    const uint64_t word = words_.front();
    words_ = words_.subspan(1);
    return word;
  }
  std::optional<std::string> Text();
  bool ReadValue(KeywordValue* keyword);

  std::span<const uint64_t> words_;
};

std::optional<std::string> KeywordReader::Text() {
  const auto head = Word();
  if (!head || (*head & 0xff) != abi::PT_VALUE_TEXT) return std::nullopt;
  const uint64_t bytes = *head >> 32;
  const uint64_t width = *head >> 8 & 0xff;
  const uint64_t words = (bytes + 7) / 8;
  if (bytes > PT_MOST_VALUE_TEXT_BYTES || words > words_.size()) return std::nullopt;
  std::string text(bytes, '\0');
  if (bytes != 0) std::memcpy(text.data(), words_.data(), bytes);
  words_ = words_.subspan(words);
  if (width == 1 || width == 2 || width == 4) {
    text = PythonTextToUtf8({reinterpret_cast<const uint8_t*>(text.data()), text.size()}, width);
  } else if (width != 0) {
    return std::nullopt;
  }
  if ((*head & PT_VALUE_TEXT_IS_CUT) != 0) {
    text = std::string(WithoutCutCharacter(text)) + "…";
  }
  return text;
}

bool KeywordReader::ReadValue(KeywordValue* keyword) {
  if (words_.empty()) return false;
  if ((words_.front() & 0xff) == abi::PT_VALUE_TEXT) {
    auto text = Text();
    if (!text) return false;
    keyword->value = *std::move(text);
    return true;
  }
  const uint64_t head = *Word();
  switch (static_cast<abi::pt_value>(head & 0xff)) {
    case abi::PT_VALUE_NULL:
      return true;
    case abi::PT_VALUE_BOOL:
      keyword->value = (head >> 8 & 1) != 0;
      return true;
    case abi::PT_VALUE_INT:
      keyword->value = static_cast<int64_t>(head) >> 8;
      return true;
    case abi::PT_VALUE_WIDE_INT:
    case abi::PT_VALUE_DOUBLE: {
      const auto word = Word();
      if (!word) return false;
      if ((head & 0xff) == abi::PT_VALUE_DOUBLE) {
        keyword->value = std::bit_cast<double>(*word);
      } else {
        keyword->value = static_cast<int64_t>(*word);
      }
      return true;
    }
    case abi::PT_VALUE_LIST: {
      const uint64_t count = head >> 8;
      if (count > words_.size()) return false;
      std::vector<std::string> texts;
      for (uint64_t i = 0; i < count; ++i) {
        auto text = Text();
        if (!text) return false;
        texts.push_back(*std::move(text));
      }
      keyword->value = std::move(texts);
      return true;
    }
    case abi::PT_VALUE_OTHER:
    case abi::PT_VALUE_TENSOR:
    case abi::PT_VALUE_WIDE_UINT:
    case abi::PT_VALUE_COMPLEX:
    case abi::PT_VALUE_TENSORS:
    case abi::PT_VALUE_SPILLED:
    case abi::PT_VALUE_SYMBOLIC:
    case abi::PT_VALUE_TEXT:
      return false;
  }
  return false;
}

std::optional<KeywordValue> KeywordReader::Next() {
  KeywordValue keyword;
  auto name = Text();
  if (!name) return std::nullopt;
  keyword.name = *std::move(name);
  return ReadValue(&keyword) ? std::optional(std::move(keyword)) : std::nullopt;
}

}  // namespace

std::optional<std::vector<KeywordValue>> FormatKeywords(std::span<const uint64_t> values,
                                                        uint32_t count) {
  std::vector<KeywordValue> keywords;
  KeywordReader reader(values);
  for (uint32_t i = 0; i < count; ++i) {
    auto keyword = reader.Next();
    if (!keyword) return std::nullopt;
    keywords.push_back(*std::move(keyword));
  }
  if (!reader.at_end()) return std::nullopt;
  return keywords;
}

}  // namespace proftrace
