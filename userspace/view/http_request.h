// Reads the head of an HTTP request. Anybody on this machine may have sent its bytes, so that
// everything that is not needed to fetch a file by its exact name is refused: other methods,
// bodies, folded lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

namespace proftrace {

// The status codes that answers have (RFC 9110).
enum class HttpStatus : uint16_t {
  kOk = 200,
  kPartialContent = 206,
  kBadRequest = 400,
  kNotFound = 404,
  kMethodNotAllowed = 405,
  kRequestTimeout = 408,
  kRangeNotSatisfiable = 416,
  kMisdirectedRequest = 421,  // the Host header is not this machine's own name for itself
  kHeadTooLarge = 431,
  kVersionNotSupported = 505,
};

// Returns the status line's words: "Not Found".
std::string_view HttpStatusText(HttpStatus status);

// A range "bytes=FIRST-LAST"; both ends are inclusive. Without `first`, the last `last` bytes are
// asked for.
struct AskedRange {
  std::optional<uint64_t> first;
  std::optional<uint64_t> last;
};

struct HttpRequest {
  bool is_head = false;   // the answer has no body
  std::string_view path;  // without the query; begins with a slash; percent signs stay as they are
  std::optional<AskedRange> range;
};

// The largest head in bytes; a longer one is refused.
inline constexpr size_t kMostHeadBytes = 8192;

// Reads a request, or returns the error to answer with. `head` is the text before the first empty
// line, with the line end of each line; the views in the result point into it. Several ranges, and
// ranges under a condition, are ignored, because the whole file is a right answer to them (RFC
// 9110, 14.2).
std::variant<HttpRequest, HttpStatus> ParseHttpRequest(std::string_view head);

// Where the bytes of an answer begin, and how many there are.
struct ByteStretch {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// Returns which part of a file of `bytes` bytes was asked for; nullopt where the range has no byte
// of the file.
std::optional<ByteStretch> StretchOf(const AskedRange& range, uint64_t bytes);

}  // namespace proftrace
