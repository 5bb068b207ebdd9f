// Heads of HTTP requests, and ranges of files of a size that the first byte chooses.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <variant>

#include "userspace/view/http_request.h"

namespace proftrace {
namespace {

// What is accepted is within the head, and what it asks for within the file.
void Fuzz(uint8_t choice, std::string_view head) {
  const auto parsed = ParseHttpRequest(head);
  const auto* request = std::get_if<HttpRequest>(&parsed);
  if (request == nullptr) {
    if (HttpStatusText(std::get<HttpStatus>(parsed)).empty()) abort();
    return;
  }
  if (!request->path.starts_with('/') || request->path.find(' ') != std::string_view::npos) abort();
  if (request->path.data() < head.data() || request->path.size() > head.size()) abort();
  if (!request->range.has_value()) return;
  const uint64_t bytes = choice == 255 ? UINT64_MAX : choice;
  const auto stretch = StretchOf(*request->range, bytes);
  if (!stretch.has_value()) return;
  if (stretch->bytes == 0 || stretch->offset >= bytes || stretch->bytes > bytes - stretch->offset) {
    abort();
  }
}

}  // namespace
}  // namespace proftrace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  proftrace::Fuzz(data[0], {reinterpret_cast<const char*>(data) + 1, size - 1});
  return 0;
}
