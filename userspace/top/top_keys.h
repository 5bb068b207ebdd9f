// Bytes of a terminal as keys.
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
  std::string text;  // of kCharacter: one well-formed character of UTF-8 that can be shown

  bool operator==(const TopKey&) const = default;
  bool Is(char character) const {
    return kind == TopKeyKind::kCharacter && text.size() == 1 && text[0] == character;
  }
};

// Finds keys in what came of a terminal, piece by piece. Sequences that it does not know are left
// out, and so is what is no text.
class TopKeyReader {
 public:
  std::vector<TopKey> Read(std::string_view bytes);
  // Whether what came last may be the begin of a sequence; where nothing follows soon it is none.
  bool is_waiting() const { return !pending_.empty(); }
  // Returns the keys of what waits: nothing has followed.
  std::vector<TopKey> Flush();

 private:
  std::string pending_;
};

}  // namespace proftrace
