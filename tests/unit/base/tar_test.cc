#include "userspace/base/tar.h"

#include <gtest/gtest.h>

#include <string>

namespace proftrace {
namespace {

std::string FileOf(const TarHead& head) {
  return TarBlockOf(head) + std::string(head.bytes + TarPadding(head.bytes), 'x');
}

TarSearch Search(const std::string& archive, std::string_view name = "capture.ptrec") {
  return FindInTar(name, [&](uint64_t offset) -> std::optional<std::span<const std::byte>> {
    if (offset > archive.size() || archive.size() - offset < kTarBlockBytes) return std::nullopt;
    return std::as_bytes(std::span(archive)).subspan(offset, kTarBlockBytes);
  });
}

TEST(TarTest, FindsAFileInAFolder) {
  const std::string archive = FileOf({"run/", 0, 0755, 5, true}) +
                              FileOf({"run/key_averages.txt", 700, 0644, 5}) +
                              FileOf({"run/capture.ptrec", 513, 0600, 5}) + std::string(1024, '\0');
  ASSERT_TRUE(IsTar(std::as_bytes(std::span(archive))));
  const TarSearch search = Search(archive);
  EXPECT_EQ(search.count, 1u);
  ASSERT_TRUE(search.first.has_value());
  EXPECT_EQ(search.first->offset, 512u + 512 + 1024 + 512);
  EXPECT_EQ(search.first->bytes, 513u);
}

TEST(TarTest, CountsSeveralAndGivesTheFirst) {
  const std::string archive = FileOf({"r/cycle_0/capture.ptrec", 10, 0600, 0}) +
                              FileOf({"r/cycle_1/capture.ptrec", 10, 0600, 0});
  const TarSearch search = Search(archive);
  EXPECT_EQ(search.count, 2u);
  EXPECT_EQ(search.first->offset, 512u);
}

TEST(TarTest, AFolderOrALinkOfTheNameIsNoFile) {
  std::string archive = FileOf({"capture.ptrec", 0, 0755, 0, true});
  EXPECT_EQ(Search(archive).count, 0u);
}

TEST(TarTest, NamesAreCutAtASlashOrRefused) {
  const std::string folder(120, 'f');
  const std::string archive = FileOf({folder + "/capture.ptrec", 1, 0600, 0});
  EXPECT_EQ(Search(archive).count, 1u);
  EXPECT_EQ(TarBlockOf({std::string(101, 'n'), 0, 0, 0}), "");
  EXPECT_EQ(TarBlockOf({std::string(300, 'n') + "/x", 0, 0, 0}), "");
}

TEST(TarTest, SizesThatOctalDigitsDoNotHold) {
  const uint64_t bytes = uint64_t{20} << 30;
  const std::string block = TarBlockOf({"capture.ptrec", bytes, 0600, 0});
  EXPECT_EQ(Search(block).first->bytes, bytes);
}

TEST(TarTest, WhatIsNoHeadEndsTheSearch) {
  std::string archive = FileOf({"a", 100, 0600, 0}) + FileOf({"capture.ptrec", 100, 0600, 0});
  archive[1024] ^= 1;  // the second head's sum no longer holds
  EXPECT_EQ(Search(archive).count, 0u);
  EXPECT_FALSE(IsTar(std::as_bytes(std::span(archive)).subspan(1024)));
  EXPECT_EQ(Search("short").count, 0u);
  // A size that leads behind the end of all numbers.
  std::string huge = TarBlockOf({"a", ~uint64_t{0}, 0600, 0});
  EXPECT_EQ(Search(huge + huge).count, 0u);
}

}  // namespace
}  // namespace proftrace
