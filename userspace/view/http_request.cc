#include "userspace/view/http_request.h"

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>

#include <algorithm>
#include <array>

#include "userspace/base/text.h"

namespace proftrace {
namespace {

constexpr std::string_view kLineEnd = "\r\n";
// The names by which a browser calls a server on its own machine. Any other name in Host was
// resolved to this machine by a foreign DNS server, so that a foreign page could read the answers
// (DNS rebinding).
constexpr std::array<std::string_view, 3> kOwnHosts = {"127.0.0.1", "localhost", "[::1]"};

bool IsTokenCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool IsToken(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsTokenCharacter);
}

bool IsVisible(char c) { return c > ' ' && c < '\x7f'; }

// Returns whether the character may stand in a header's value. Bytes beyond ASCII are let through,
// because nothing here interprets them.
bool IsOfValue(char c) {
  return c == '\t' || (static_cast<unsigned char>(c) >= ' ' && c != '\x7f');
}

bool IsSame(std::string_view a, std::string_view b) {
  return absl::EqualsIgnoreCase(absl::string_view(a.data(), a.size()),
                                absl::string_view(b.data(), b.size()));
}

bool IsOwnHost(std::string_view host) {
  const size_t colon = host.rfind(':');
  const bool has_port = colon != std::string_view::npos && host.back() != ']';
  if (has_port) {
    // The port may differ from ours, because ssh -L may have forwarded another one.
    if (!ParseNumber<uint16_t>(host.substr(colon + 1)).has_value()) return false;
    host = host.substr(0, colon);
  }
  return std::any_of(kOwnHosts.begin(), kOwnHosts.end(),
                     [&](std::string_view own) { return IsSame(host, own); });
}

std::optional<AskedRange> RangeOf(std::string_view value) {
  if (!ConsumeText(&value, "bytes=")) return std::nullopt;
  const size_t dash = value.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  AskedRange range;
  if (dash > 0) {
    range.first = ParseNumber<uint64_t>(value.substr(0, dash));
    if (!range.first.has_value()) return std::nullopt;
  }
  if (dash + 1 < value.size()) {
    range.last = ParseNumber<uint64_t>(value.substr(dash + 1));
    if (!range.last.has_value()) return std::nullopt;
  }
  if (!range.first.has_value() && !range.last.has_value()) return std::nullopt;
  if (range.first.has_value() && range.last.has_value() && *range.last < *range.first) {
    return std::nullopt;
  }
  return range;
}

// Reads a line like "GET /path?query HTTP/1.1". Returns the error to answer with, or nullopt.
std::optional<HttpStatus> ReadRequestLine(std::string_view line, HttpRequest* request) {
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string_view::npos || last == first) return HttpStatus::kBadRequest;
  const std::string_view method = line.substr(0, first);
  std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (!IsToken(method) || !version.starts_with("HTTP/")) return HttpStatus::kBadRequest;
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return HttpStatus::kVersionNotSupported;
  if (method != "GET" && method != "HEAD") return HttpStatus::kMethodNotAllowed;
  const bool is_path =
      target.starts_with('/') && std::all_of(target.begin(), target.end(), IsVisible);
  if (!is_path) return HttpStatus::kBadRequest;
  request->is_head = method == "HEAD";
  request->path = target.substr(0, target.find('?'));
  return std::nullopt;
}

// The headers that matter here.
struct Headers {
  int hosts = 0;
  bool is_own_host = false;
  bool has_condition = false;  // If-Range
  std::optional<AskedRange> range;
};

std::optional<HttpStatus> ReadHeader(std::string_view line, Headers* headers) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || !IsToken(line.substr(0, colon))) {
    return HttpStatus::kBadRequest;
  }
  const std::string_view name = line.substr(0, colon);
  const std::string_view value = StripBlanks(line.substr(colon + 1));
  if (!std::all_of(value.begin(), value.end(), IsOfValue)) return HttpStatus::kBadRequest;
  if (IsSame(name, "Host")) {
    ++headers->hosts;
    headers->is_own_host = IsOwnHost(value);
  } else if (IsSame(name, "Transfer-Encoding") ||
             (IsSame(name, "Content-Length") && value != "0")) {
    return HttpStatus::kBadRequest;
  } else if (IsSame(name, "Range")) {
    headers->range = RangeOf(value);
  } else if (IsSame(name, "If-Range")) {
    headers->has_condition = true;
  }
  return std::nullopt;
}

}  // namespace

std::string_view HttpStatusText(HttpStatus status) {
  switch (status) {
    case HttpStatus::kOk:
      return "OK";
    case HttpStatus::kPartialContent:
      return "Partial Content";
    case HttpStatus::kBadRequest:
      return "Bad Request";
    case HttpStatus::kNotFound:
      return "Not Found";
    case HttpStatus::kMethodNotAllowed:
      return "Method Not Allowed";
    case HttpStatus::kRequestTimeout:
      return "Request Timeout";
    case HttpStatus::kRangeNotSatisfiable:
      return "Range Not Satisfiable";
    case HttpStatus::kMisdirectedRequest:
      return "Misdirected Request";
    case HttpStatus::kHeadTooLarge:
      return "Request Header Fields Too Large";
    case HttpStatus::kVersionNotSupported:
      return "HTTP Version Not Supported";
  }
  return "";
}

std::variant<HttpRequest, HttpStatus> ParseHttpRequest(std::string_view head) {
  HttpRequest request;
  Headers headers;
  bool is_first = true;
  while (!head.empty()) {
    const size_t end = head.find(kLineEnd);
    if (end == std::string_view::npos) return HttpStatus::kBadRequest;
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(end + kLineEnd.size());
    const std::optional<HttpStatus> wrong =
        is_first ? ReadRequestLine(line, &request) : ReadHeader(line, &headers);
    if (wrong.has_value()) return *wrong;
    is_first = false;
  }
  if (is_first || headers.hosts != 1) return HttpStatus::kBadRequest;
  if (!headers.is_own_host) return HttpStatus::kMisdirectedRequest;
  if (!headers.has_condition) request.range = headers.range;
  return request;
}

std::optional<ByteStretch> StretchOf(const AskedRange& range, uint64_t bytes) {
  if (!range.first.has_value()) {
    const uint64_t most = range.last.has_value() ? std::min(*range.last, bytes) : bytes;
    if (most == 0) return std::nullopt;
    return ByteStretch{bytes - most, most};
  }
  if (*range.first >= bytes) return std::nullopt;
  const uint64_t last = std::min(range.last.value_or(bytes - 1), bytes - 1);
  return ByteStretch{*range.first, last - *range.first + 1};
}

}  // namespace proftrace
