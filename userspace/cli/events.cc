#include "userspace/cli/events.h"

#include <cstdio>
#include <string>

namespace proftrace {

void WriteEvent(const nlohmann::ordered_json& event) {
  constexpr bool kOnlyAscii = true;
  const std::string line =
      event.dump(-1, ' ', kOnlyAscii, nlohmann::json::error_handler_t::replace) + "\n";
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

}  // namespace proftrace
