// inject LIBRARY FUNCTION PID [FILE_PREFIX:SYMBOL...]: one injection, as `key value` lines. Exit
// code 0, or 1 with the reason.
// inject --calls: the numbers of the system calls that one makes, joined by commas.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "userspace/inject/injection_calls.h"
#include "userspace/inject/injector.h"

int main(int count, char** arguments) {
  using namespace proftrace;
  if (count == 2 && std::string_view(arguments[1]) == "--calls") {
    for (const FilteredCall& call : InjectionCalls()) std::printf("%ld,", call.number);
    return 0;
  }
  if (count < 4) return 2;
  InjectionRequest request;
  std::ifstream file(arguments[1], std::ios::binary);
  request.library.assign(std::istreambuf_iterator<char>(file), {});
  request.library_name = "injected_library";
  request.function = arguments[2];
  request.pid = Pid{static_cast<uint32_t>(std::atoi(arguments[3]))};
  if (const char* limit = std::getenv("ARRIVAL_LIMIT_MS")) {
    request.arrival_limit_ns = std::atoll(limit) * 1'000'000;
  }
  if (count > 4) request.safe_points.clear();
  for (int i = 4; i < count; ++i) {
    const std::string place = arguments[i];
    const size_t colon = place.find(':');
    request.safe_points.push_back({place.substr(0, colon), place.substr(colon + 1)});
  }
  const absl::StatusOr<InjectionReport> report = InjectLibrary(request);
  if (!report.ok()) {
    std::printf("error %s\n", std::string(report.status().message()).c_str());
    return 1;
  }
  std::printf("result %d\nstop_us %.1f\nwait_us %.1f\ntotal_ms %.2f\nstops %u\nleftovers %u\n",
              report->result, static_cast<double>(report->longest_stop_ns) * 1e-3,
              static_cast<double>(report->longest_wait_ns) * 1e-3,
              static_cast<double>(report->total_ns) * 1e-6, report->stops, report->leftovers);
  return 0;
}
