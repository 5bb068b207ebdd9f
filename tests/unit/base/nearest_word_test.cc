#include "userspace/base/nearest_word.h"

#include <gtest/gtest.h>

#include <array>

namespace proftrace {
namespace {

constexpr std::array<std::string_view, 5> kWords = {"record", "report", "export", "list", "bpf"};

TEST(NearestWordTest, OneSlipIsFound) {
  for (const auto& [word, meant] :
       {std::pair("recrod", "record"), std::pair("reord", "record"), std::pair("rreport", "report"),
        std::pair("exprot", "export"), std::pair("lst", "list"), std::pair("bfp", "bpf"),
        std::pair("rep", "report"), std::pair("record", "record")}) {
    EXPECT_EQ(NearestWord(word, kWords), meant) << word;
  }
}

TEST(NearestWordTest, WhatIsFarIsNotGuessed) {
  for (const char* word : {"", "x", "s", "merge", "4711", "pf-b-x"}) {
    EXPECT_EQ(NearestWord(word, kWords), "") << word;
  }
  EXPECT_EQ(NearestWord(std::string(100'000, 'a'), kWords), "");
}

TEST(NearestWordTest, TheSentenceNamesAllAndAsks) {
  constexpr std::array<std::string_view, 2> kTiers = {"bpf", "patch"};
  EXPECT_EQ(NoneOf("bfp", kTiers), "'bfp' is none of bpf, patch; did you mean bpf?");
  EXPECT_EQ(NoneOf("\x1b[2J", kTiers).find('\x1b'), std::string::npos);
  EXPECT_EQ(NoneOf("jump", kTiers), "'jump' is none of bpf, patch");
}

}  // namespace
}  // namespace proftrace
