// A hash that is the same in each run and on each host (FNV-1a, 64 bits): for names of files and
// keys in tables. No user of it may rely on different texts having different hashes: anybody can
// make two texts with the same one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace proftrace {

class StableHash {
 public:
  // Adds a text and its end, so that "ab", "c" and "a", "bc" have different hashes.
  StableHash& Add(std::string_view text) {
    for (const char byte : text) Mix(static_cast<unsigned char>(byte));
    Mix(0xff);  // a byte that UTF-8 never has
    return *this;
  }
  StableHash& Add(int64_t number) {
    for (int byte = 0; byte < 8; ++byte) {
      Mix(static_cast<unsigned char>(static_cast<uint64_t>(number) >> (8 * byte)));
    }
    return *this;
  }

  uint64_t value() const {
    // The last step of SplitMix64 is added, because FNV alone gives short texts similar upper bits.
    uint64_t hash = hash_;
    hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9U;
    hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebU;
    return hash ^ (hash >> 31);
  }
  // Returns the hash as 16 hex digits.
  std::string Hex() const {
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string text(16, '0');
    uint64_t rest = value();
    for (size_t i = text.size(); i-- > 0; rest >>= 4) text[i] = kDigits[rest & 15];
    return text;
  }

 private:
  void Mix(unsigned char byte) { hash_ = (hash_ ^ byte) * 0x100000001b3U; }

  uint64_t hash_ = 0xcbf29ce484222325U;
};

}  // namespace proftrace
