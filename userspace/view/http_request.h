// The head of an HTTP request, as bytes that anybody on this machine may have sent. What is not
// needed to fetch a file by its exact name is refused: other methods, bodies, folded lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

namespace proftrace {

// The answers that are given (RFC 9110).
enum class HttpStatus : uint16_t {
  kOk = 200,
  kPartialContent = 206,
  kBadRequest = 400,
  kNotFound = 404,
  kMethodNotAllowed = 405,
  kRequestTimeout = 408,
  kRangeNotSatisfiable = 416,
  kMisdirectedRequest = 421,  // the Host is not this machine's own name for itself
  kHeadTooLarge = 431,
  kVersionNotSupported = 505,
};

// Returns the status line's words: "Not Found".
std::string_view HttpStatusText(HttpStatus status);

// "bytes=FIRST-LAST", both inclusive. Without `first`: the last `last` bytes.
struct AskedRange {
  std::optional<uint64_t> first;
  std::optional<uint64_t> last;
};

struct HttpRequest {
  bool is_head = false;   // the answer has no body
  std::string_view path;  // without the query; begins with a slash; percent signs stay as they are
  std::optional<AskedRange> range;
};

// More bytes are no head of ours.
inline constexpr size_t kMostHeadBytes = 8192;

// Reads what stands before the first empty line, with the line end of each line. The views lead
// into `head`. Several ranges, and ranges under a condition, are left out: the whole file is a
// right answer to them (RFC 9110, 14.2).
std::variant<HttpRequest, HttpStatus> ParseHttpRequest(std::string_view head);

// Where the bytes of an answer begin, and how many there are.
struct ByteStretch {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// Returns what of a file of `bytes` was asked for; nullopt: nothing of it.
std::optional<ByteStretch> StretchOf(const AskedRange& range, uint64_t bytes);

}  // namespace proftrace
