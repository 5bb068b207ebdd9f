#include "userspace/top/top_keys.h"

#include <cctype>

#include "userspace/base/shown_text.h"
#include "userspace/base/utf8.h"

namespace proftrace {
namespace {

constexpr char kEscape = '\x1b';
// The longest sequence in bytes; a longer one is cut there.
constexpr size_t kLongestSequence = 16;

// Returns the length of the sequence at the front, which begins with ESC; 0 where its end has not
// come yet.
size_t SequenceLength(std::string_view bytes) {
  if (bytes.size() < 2) return 0;
  if (bytes[1] == 'O') return bytes.size() < 3 ? 0 : 3;
  if (bytes[1] != '[') return 1;  // a lone ESC, and a key after it
  for (size_t i = 2; i < bytes.size(); ++i) {
    if (bytes[i] >= 0x40 && bytes[i] <= 0x7E) return i + 1;
    if (i >= kLongestSequence) return i + 1;
  }
  return 0;
}

// Finds the key of a sequence like "[A", "OA" or "[5~". Modifiers ("[1;5A") are ignored. Returns
// false where the sequence is no known key.
bool KeyOfSequence(std::string_view sequence, TopKeyKind* kind) {
  if (sequence.size() == 1) {
    *kind = TopKeyKind::kEscape;
    return true;
  }
  const char last = sequence.back();
  const std::string_view middle = sequence.substr(2, sequence.size() - 3);
  const std::string_view number = middle.substr(0, middle.find(';'));
  switch (last) {
    case 'A':
      *kind = TopKeyKind::kUp;
      return true;
    case 'B':
      *kind = TopKeyKind::kDown;
      return true;
    case 'H':
      *kind = TopKeyKind::kHome;
      return true;
    case 'F':
      *kind = TopKeyKind::kEnd;
      return true;
    case '~':
      break;
    default:
      return false;
  }
  if (number == "5" || number == "6") {
    *kind = number == "5" ? TopKeyKind::kPageUp : TopKeyKind::kPageDown;
    return true;
  }
  if (number != "1" && number != "7" && number != "4" && number != "8") return false;
  *kind = number == "1" || number == "7" ? TopKeyKind::kHome : TopKeyKind::kEnd;
  return true;
}

// Returns whether the bytes may be the begin of a UTF-8 character that is not complete yet.
bool IsCutCharacter(std::string_view bytes) {
  const auto first = static_cast<unsigned char>(bytes[0]);
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC2 ? 2 : 1;
  return bytes.size() < length;
}

}  // namespace

std::vector<TopKey> TopKeyReader::Read(std::string_view bytes) {
  pending_ += bytes;
  std::vector<TopKey> keys;
  std::string_view rest = pending_;
  while (!rest.empty()) {
    if (rest[0] == kEscape) {
      const size_t length = SequenceLength(rest);
      if (length == 0) break;
      TopKeyKind kind{};
      if (KeyOfSequence(rest.substr(0, length), &kind)) keys.push_back({kind, ""});
      rest.remove_prefix(length);
      continue;
    }
    size_t invalid = 1;
    const size_t length = rest[0] == '\0' ? 0 : Utf8Length(rest, &invalid);
    if (length == 0) {
      if (rest[0] != '\0' && IsCutCharacter(rest)) break;
      rest.remove_prefix(invalid);
      continue;
    }
    const std::string_view character = rest.substr(0, length);
    if (character == "\r" || character == "\n") {
      keys.push_back({TopKeyKind::kEnter, ""});
    } else if (character == "\x7f" || character == "\b") {
      keys.push_back({TopKeyKind::kBackspace, ""});
    } else if (!IsUnshowable(character)) {
      keys.push_back({TopKeyKind::kCharacter, std::string(character)});
    }
    rest.remove_prefix(length);
  }
  pending_ = std::string(rest);
  return keys;
}

std::vector<TopKey> TopKeyReader::Flush() {
  const bool is_escape = !pending_.empty() && pending_[0] == kEscape;
  std::string rest = pending_.substr(pending_.empty() ? 0 : 1);
  pending_.clear();
  std::vector<TopKey> keys;
  if (is_escape) {
    keys.push_back({TopKeyKind::kEscape, ""});
    for (TopKey& key : Read(rest)) keys.push_back(std::move(key));
  }
  pending_.clear();
  return keys;
}

}  // namespace proftrace
