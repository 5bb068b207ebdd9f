#include "userspace/view/pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace proftrace {
namespace {

using testing::HasSubstr;
using testing::Not;

ViewedFile FileOf(const std::string& text, const std::string& name) {
  auto fd = std::make_shared<const UniqueFd>(memfd_create("file", MFD_CLOEXEC));
  EXPECT_TRUE(WriteFully(fd->get(), text));
  return {std::move(fd), 0, text.size(), name};
}

std::string TextOf(const ServedFile& file) {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const UniqueFd writes(ends[0]);
  const UniqueFd reads(ends[1]);
  std::string text;
  for (uint64_t at = 0; at < file.bytes();) {
    const int64_t sent = file.Send(writes.get(), at, 4096);
    EXPECT_GT(sent, 0);
    if (sent <= 0) break;
    std::string part(static_cast<size_t>(sent), '\0');
    EXPECT_EQ(recv(reads.get(), part.data(), part.size(), MSG_WAITALL), sent);
    text += part;
    at += static_cast<uint64_t>(sent);
  }
  return text;
}

constexpr char kReport[] =
    "<!DOCTYPE html>\n<meta http-equiv=\"Content-Security-Policy\"\n  content=\"default-src "
    "'none'\">\n<title>x</title>all the rest";

TEST(PagesTest, TheReportLosesItsPolicyAndGetsTheButtons) {
  ViewFacts facts;
  facts.title = "my <run> @TITLE@";
  facts.trace = FileOf("trace", "trace.json.gz");
  facts.perfetto_ui = "perfetto/";
  facts.speedscope_ui = "https://speedscope.example/x";
  ServedFiles files;
  ASSERT_TRUE(AddPages(FileOf(kReport, "report.html"), facts, &files).ok());
  const ServedFile* page = files.Find("");
  ASSERT_NE(page, nullptr);
  const std::string text = TextOf(*page);
  EXPECT_THAT(text, Not(HasSubstr("http-equiv")));
  EXPECT_THAT(text, HasSubstr("<script src=\"view.js\" defer></script>"));
  EXPECT_THAT(text, HasSubstr("my \\u003crun> \\u0040TITLE\\u0040"));
  EXPECT_THAT(text, HasSubstr("\n<title>x</title>all the rest"));
  EXPECT_THAT(page->headers(), HasSubstr("connect-src 'self'"));
  EXPECT_THAT(page->headers(), HasSubstr("frame-ancestors 'none'"));
  EXPECT_EQ(TextOf(*files.Find("trace.json.gz")), "trace");
  EXPECT_EQ(files.Find("trace.json.gz")->type(), "application/gzip");
  EXPECT_EQ(files.Find("trace.json.gz")->headers(), "");
  EXPECT_THAT(TextOf(*files.Find("view.js")), HasSubstr("PONG"));
}

TEST(PagesTest, OnlySpeedscopesPageMayFetchTheStacks) {
  ViewFacts facts;
  facts.trace = FileOf("trace", "trace.json");
  facts.speedscope = FileOf("{}", "profile.speedscope.json");
  facts.speedscope_ui = "https://speedscope.example/x";
  ServedFiles files;
  ASSERT_TRUE(AddPages(std::nullopt, facts, &files).ok());
  EXPECT_THAT(files.Find("profile.speedscope.json")->headers(),
              HasSubstr("Access-Control-Allow-Origin: https://speedscope.example\r\n"));
  facts.speedscope_ui = "speedscope/";  // of this server
  ServedFiles local;
  ASSERT_TRUE(AddPages(std::nullopt, facts, &local).ok());
  EXPECT_EQ(local.Find("profile.speedscope.json")->headers(), "");
}

TEST(PagesTest, ATraceHasASmallPage) {
  ViewFacts facts;
  facts.title = "a<b>&\"@VIEW@";
  facts.trace = FileOf("[]", "trace.json");
  ServedFiles files;
  ASSERT_TRUE(AddPages(std::nullopt, facts, &files).ok());
  const std::string text = TextOf(*files.Find(""));
  EXPECT_THAT(text, HasSubstr("<h1>a&lt;b>&amp;&quot;&#64;VIEW&#64;</h1>"));
  EXPECT_THAT(text, HasSubstr("<a href=\"trace.json\">"));
  EXPECT_THAT(text, Not(HasSubstr("@")));
  EXPECT_EQ(files.Find("report.html"), nullptr);
}

TEST(PagesTest, WhatIsNoPageOfOursIsRefused) {
  ServedFiles files;
  for (const std::string text :
       {"", "<html></html>", "<meta http-equiv=\"Content-Security-Policy\""}) {
    EXPECT_FALSE(AddPages(FileOf(text, "report.html"), {}, &files).ok()) << text;
  }
  EXPECT_FALSE(
      AddPages(FileOf(std::string(100'000, ' ') + kReport, "report.html"), {}, &files).ok());
}

TEST(PagesTest, OriginsOfAddresses) {
  EXPECT_EQ(OriginOf("https://ui.perfetto.dev/"), "https://ui.perfetto.dev");
  EXPECT_EQ(OriginOf("http://[::1]:10000/ui?x#y"), "http://[::1]:10000");
  EXPECT_EQ(OriginOf("http://localhost:1"), "http://localhost:1");
  for (const char* address :
       {"", "https://", "https:///x", "ftp://x", "javascript://x", "file:///x", "https://a b/",
        "https://a\r\nX: y/", "https://user@host/", "/folder"}) {
    EXPECT_EQ(OriginOf(address), std::nullopt) << address;
  }
}

}  // namespace
}  // namespace proftrace
