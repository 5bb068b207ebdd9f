// inject LIBRARY FUNCTION PID [FILE_PREFIX:SYMBOL...]: one injection, as `key value` lines. Exit
// code 0, or 1 with the reason.
// inject killed|failing POINT STEP LIBRARY …: the same, but it is killed at each STEPth step from
// POINT on, or this step fails (kill_points.h); the work returns 0 where all was done.
// inject --calls: the numbers of the system calls that one makes, joined by commas.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include "tests/support/patch/kill_points.h"
#include "userspace/inject/injection_calls.h"
#include "userspace/inject/injector.h"

namespace proftrace {
namespace {

InjectionRequest ReadRequest(std::span<char*> words) {
  InjectionRequest request;
  std::ifstream file(words[0], std::ios::binary);
  request.library.assign(std::istreambuf_iterator<char>(file), {});
  request.library_name = "injected_library";
  request.function = words[1];
  request.pid = Pid{static_cast<uint32_t>(std::atoi(words[2]))};
  if (const char* limit = std::getenv("ARRIVAL_LIMIT_MS")) {
    request.arrival_limit_ns = std::atoll(limit) * 1'000'000;
  }
  const std::span<char*> places = words.subspan(3);
  if (!places.empty()) request.safe_points.clear();
  for (const std::string place : places) {
    const size_t colon = place.find(':');
    request.safe_points.push_back({place.substr(0, colon), place.substr(colon + 1)});
  }
  return request;
}

int Inject(const InjectionRequest& request) {
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

}  // namespace
}  // namespace proftrace

int main(int count, char** arguments) {
  using namespace proftrace;
  const std::span<char*> words(arguments + 1, arguments + count);
  if (words.size() == 1 && std::string_view(words[0]) == "--calls") {
    for (const FilteredCall& call : InjectionCalls()) std::printf("%ld,", call.number);
    return 0;
  }
  if (words.size() < 3) return 2;
  const std::string_view mode = words[0];
  if (mode != "killed" && mode != "failing") return Inject(ReadRequest(words));
  if (words.size() < 6) return 2;
  const InjectionRequest request = ReadRequest(words.subspan(3));
  const auto work = [&request] {
    const absl::Status status = InjectLibrary(request).status();
    if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return status.ok() ? 0 : 1;
  };
  const auto at_each_point = mode == "killed" ? KillAtEachPoint : FailAtEachPoint;
  return at_each_point(
      std::atoi(words[1]), std::atoi(words[2]), [] {}, work);
}
