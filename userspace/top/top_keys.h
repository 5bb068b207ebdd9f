// Turns the bytes that a terminal sends into keys.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace proftrace {

enum class TopKeyKind : uint8_t {
  kCharacter = 0,
  kUp,
  kDown,
  kPageUp,
  kPageDown,
  kHome,
  kEnd,
  kEnter,
  kEscape,
  kBackspace,
};

struct TopKey {
  TopKeyKind kind = TopKeyKind::kCharacter;
  std::string text;  // for kCharacter: one well-formed character of UTF-8 that can be shown

  bool operator==(const TopKey&) const = default;
  bool Is(char character) const {
    return kind == TopKeyKind::kCharacter && text.size() == 1 && text[0] == character;
  }
};

// Finds keys in the bytes of a terminal, which come in pieces. Unknown sequences and bytes that are
// not text are left out.
class TopKeyReader {
 public:
  std::vector<TopKey> Read(std::string_view bytes);
  // Returns whether the last bytes may be the begin of a sequence. Where nothing follows soon, they
  // are keys of their own: call Flush().
  bool is_waiting() const { return !pending_.empty(); }
  // Returns the keys of the waiting bytes, after which nothing has followed.
  std::vector<TopKey> Flush();

 private:
  std::string pending_;
};

}  // namespace proftrace
