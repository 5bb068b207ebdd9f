#include "userspace/capture/kernel/kernel_types.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>

namespace proftrace {
namespace {

std::string Words(std::initializer_list<uint32_t> words) {
  std::string bytes;
  for (const uint32_t word : words) {
    bytes.append(reinterpret_cast<const char*>(&word), sizeof(word));
  }
  return bytes;
}

constexpr uint32_t Info(uint32_t kind, uint32_t members) { return kind << 24 | members; }

// A raw BTF file of these types.
std::string File(const std::string& types) {
  const std::string strings("\0a\0b\0", 5);
  std::string file =
      Words({0x0001eb9f, 24, 0, static_cast<uint32_t>(types.size()),
             static_cast<uint32_t>(types.size()), static_cast<uint32_t>(strings.size())});
  return file + types + strings;
}

// An int, a struct of two, an enum.
const std::string kOldTypes = Words({1, Info(1, 0), 4, 32}) +
                              Words({1, Info(4, 2), 8, 1, 1, 0, 3, 1, 32}) +
                              Words({3, Info(6, 1), 4, 1, 7});

TEST(KernelTypesTest, OldKindsStayAsTheyAre) {
  EXPECT_EQ(WithOldKindsOnly(File(kOldTypes)), File(kOldTypes));
}

TEST(KernelTypesTest, NewKindsBecomeOldOnesOfTheSameLength) {
  const std::string enum64 = Words({1, Info(19, 2), 8, 1, 0xffffffff, 1, 3, 5, 6});
  const std::string flagged_type_tag = Words({3, Info(18, 0) | 1u << 31, 1});
  const std::string declaration_tag = Words({3, Info(17, 0), 2, 0xffffffff});
  const std::string old_enum64 = Words({1, Info(4, 2), 8, 1, 0, 0, 3, 0, 0});
  const std::string old_type_tag = Words({0, Info(10, 0), 1});
  const std::string old_declaration_tag = Words({3, Info(14, 0), 2, 0});
  EXPECT_EQ(
      WithOldKindsOnly(File(kOldTypes + enum64 + flagged_type_tag + declaration_tag + kOldTypes)),
      File(kOldTypes + old_enum64 + old_type_tag + old_declaration_tag + kOldTypes));
}

TEST(KernelTypesTest, WhatIsDamagedOrTooNewIsRefused) {
  EXPECT_FALSE(WithOldKindsOnly(File(kOldTypes + Words({1, Info(20, 0), 0}))));
  EXPECT_FALSE(WithOldKindsOnly(File(Words({1, Info(4, 0xffff), 8}))));
  const std::string whole = File(kOldTypes);
  for (size_t size = 0; size < whole.size() - 5; ++size) {
    EXPECT_FALSE(WithOldKindsOnly(whole.substr(0, size))) << size;
  }
  std::string other = whole;
  other[0] = 'E';
  EXPECT_FALSE(WithOldKindsOnly(other));
}

}  // namespace
}  // namespace proftrace
