// The flame graph page, before and after its data. Generated from flamegraph_page/ by
// embed_page.cmake.
#pragma once

#include <string_view>

namespace proftrace {

extern const std::string_view kFlamegraphPageHead;
extern const std::string_view kFlamegraphPageTail;

}  // namespace proftrace
