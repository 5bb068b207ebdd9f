#include "userspace/view/http_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace proftrace {
namespace {

constexpr char kHost[] = "Host: 127.0.0.1:8137\r\n";

std::variant<HttpRequest, HttpStatus> Parsed(const std::string& line, const std::string& headers) {
  // It outlives what is read of it.
  static std::string head;
  head = line + "\r\n" + headers;
  return ParseHttpRequest(head);
}

HttpRequest RequestOf(const std::string& line, const std::string& headers = kHost) {
  const auto parsed = Parsed(line, headers);
  const auto* request = std::get_if<HttpRequest>(&parsed);
  EXPECT_NE(request, nullptr) << line << "\n" << headers;
  return request == nullptr ? HttpRequest() : *request;
}

HttpStatus ErrorOf(const std::string& line, const std::string& headers = kHost) {
  const auto parsed = Parsed(line, headers);
  const auto* status = std::get_if<HttpStatus>(&parsed);
  return status == nullptr ? HttpStatus::kOk : *status;
}

TEST(HttpRequestTest, ReadsMethodAndPath) {
  const HttpRequest get = RequestOf("GET /token/report.html HTTP/1.1");
  EXPECT_FALSE(get.is_head);
  EXPECT_EQ(get.path, "/token/report.html");
  EXPECT_FALSE(get.range.has_value());
  EXPECT_TRUE(RequestOf("HEAD / HTTP/1.0").is_head);
  EXPECT_EQ(RequestOf("GET /a/b.js?version=1&x=/.. HTTP/1.1").path, "/a/b.js");
}

TEST(HttpRequestTest, NoPathIsDecoded) {
  EXPECT_EQ(RequestOf("GET /a/%2e%2e/%00 HTTP/1.1").path, "/a/%2e%2e/%00");
  EXPECT_EQ(RequestOf("GET /a/../b HTTP/1.1").path, "/a/../b");
}

TEST(HttpRequestTest, OtherMethodsAreRefused) {
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get", "X"}) {
    EXPECT_EQ(ErrorOf(std::string(method) + " / HTTP/1.1"), HttpStatus::kMethodNotAllowed);
  }
}

TEST(HttpRequestTest, WrongRequestLinesAreRefused) {
  for (const char* line :
       {"", "GET", "GET /", "GET  HTTP/1.1", "GET HTTP/1.1", " GET / HTTP/1.1", "GET / FTP/1.1",
        "GET http://127.0.0.1/ HTTP/1.1", "GET * HTTP/1.1", "G(T / HTTP/1.1", "GET /a b HTTP/1.1",
        "GET /\x01 HTTP/1.1", "GET /\xc3\xa4 HTTP/1.1", "GET\t/ HTTP/1.1"}) {
    EXPECT_EQ(ErrorOf(line), HttpStatus::kBadRequest) << line;
  }
  EXPECT_EQ(ErrorOf("GET / HTTP/2.0"), HttpStatus::kVersionNotSupported);
  EXPECT_EQ(ErrorOf("GET / HTTP/1.1x"), HttpStatus::kVersionNotSupported);
}

TEST(HttpRequestTest, OnlyOwnNamesAreAHost) {
  for (const char* host :
       {"127.0.0.1", "127.0.0.1:1", "localhost:65535", "LocalHost", "[::1]", "[::1]:9000"}) {
    RequestOf("GET / HTTP/1.1", std::string("host:") + host + "\r\n");
  }
  for (const char* host : {"evil.example", "evil.example:8137", "127.0.0.1.evil.example",
                           "localhost.evil.example", "127.0.0.2", "0.0.0.0", "", "127.0.0.1:",
                           "127.0.0.1:x", "127.0.0.1:70000", "localhost@x", "::1", "[::1"}) {
    EXPECT_EQ(ErrorOf("GET / HTTP/1.1", std::string("Host: ") + host + "\r\n"),
              HttpStatus::kMisdirectedRequest)
        << host;
  }
  EXPECT_EQ(ErrorOf("GET / HTTP/1.1", ""), HttpStatus::kBadRequest);
  EXPECT_EQ(ErrorOf("GET / HTTP/1.1", std::string(kHost) + kHost), HttpStatus::kBadRequest);
  EXPECT_EQ(ErrorOf("GET / HTTP/1.1", std::string(kHost) + "HOST: evil.example\r\n"),
            HttpStatus::kBadRequest);
}

TEST(HttpRequestTest, BodiesAndMalformedHeadersAreRefused) {
  for (const char* header :
       {"Content-Length: 1", "content-length: 00", "Transfer-Encoding: chunked", " folded: x",
        "No colon", ": empty", "Na me: x", "A: \x01", "A: \x7f", "A: x\ry"}) {
    EXPECT_EQ(ErrorOf("GET / HTTP/1.1", std::string(kHost) + header + "\r\n"),
              HttpStatus::kBadRequest)
        << header;
  }
  RequestOf("GET / HTTP/1.1", std::string(kHost) + "Content-Length: 0\r\nX:\t \xc3\xa4 \r\n");
  EXPECT_EQ(ErrorOf("GET / HTTP/1.1", "Host: 127.0.0.1"), HttpStatus::kBadRequest);
}

TEST(HttpRequestTest, ReadsOneRange) {
  const auto range = [](const std::string& value, const std::string& more = "") {
    return RequestOf("GET / HTTP/1.1", std::string(kHost) + "Range: " + value + "\r\n" + more)
        .range;
  };
  EXPECT_EQ(range("bytes=0-9")->first, 0u);
  EXPECT_EQ(range("bytes=0-9")->last, 9u);
  EXPECT_FALSE(range("bytes=5-")->last.has_value());
  EXPECT_FALSE(range("bytes=-5")->first.has_value());
  for (const char* value : {"bytes=0-1,3-4", "bytes=", "bytes=-", "bytes=9-0", "lines=0-9",
                            "bytes=a-b", "bytes=0", "bytes=0-99999999999999999999", "bytes=+1-2"}) {
    EXPECT_FALSE(range(value).has_value()) << value;
  }
  EXPECT_FALSE(range("bytes=0-9", "If-Range: \"x\"\r\n").has_value());
}

TEST(HttpRequestTest, StretchesAreWithinTheFile) {
  const auto stretch = [](std::optional<uint64_t> first, std::optional<uint64_t> last,
                          uint64_t bytes) {
    const auto found = StretchOf({first, last}, bytes);
    return found.has_value() ? std::to_string(found->offset) + "+" + std::to_string(found->bytes)
                             : "nothing";
  };
  EXPECT_EQ(stretch(0, 9, 100), "0+10");
  EXPECT_EQ(stretch(90, 200, 100), "90+10");
  EXPECT_EQ(stretch(99, std::nullopt, 100), "99+1");
  EXPECT_EQ(stretch(100, std::nullopt, 100), "nothing");
  EXPECT_EQ(stretch(std::nullopt, 30, 100), "70+30");
  EXPECT_EQ(stretch(std::nullopt, 300, 100), "0+100");
  EXPECT_EQ(stretch(std::nullopt, 0, 100), "nothing");
  EXPECT_EQ(stretch(0, 0, 0), "nothing");
  EXPECT_EQ(stretch(std::nullopt, 5, 0), "nothing");
  EXPECT_EQ(stretch(1, UINT64_MAX, UINT64_MAX), "1+18446744073709551614");
}

}  // namespace
}  // namespace proftrace
