// A made-up training job with something of everything that the report's page shows, and with names
// that try to be HTML, script, or other text than they are.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "userspace/model/timeline.h"

namespace proftrace {

// Names of an operator, a thread, a file and a module's class that no page may take for markup.
inline constexpr std::array<const char*, 4> kHostileNames = {
    "</script><script>window.hacked=1</script>", "<img src=x onerror='window.hacked=1'>",
    "/data/\"><b onmouseover=\"window.hacked=1\">\xe2\x80\xaegpj.exe",
    "<!--<style>*{display:none}"};

// `steps` steps of 1 ms, each tenth of them of 4 ms, as a read of its file takes longer.
std::unique_ptr<Timeline> MakeReportJob(uint32_t steps);

}  // namespace proftrace
