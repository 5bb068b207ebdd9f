#include "userspace/cli/events.h"

#include <cstdio>

#include "userspace/base/dumped_json.h"
#include "userspace/cli/say.h"

namespace proftrace {

void WriteEvent(const nlohmann::ordered_json& event) {
  PrintDocument(event, kJsonOneLine);
  std::fflush(stdout);
}

}  // namespace proftrace
