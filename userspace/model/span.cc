#include "userspace/model/span.h"

namespace proftrace {

std::string_view SpanEndName(SpanEnd end) {
  switch (end) {
    case SpanEnd::kReturn:
      return "return";
    case SpanEnd::kException:
      return "exception";
    case SpanEnd::kTruncated:
      return "truncated";
    case SpanEnd::kLost:
      return "lost";
  }
  return "unknown";
}

}  // namespace proftrace
