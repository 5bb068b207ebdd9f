// --flight-recorder and what goes with it.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "userspace/capture/flight_recorder.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace proftrace {

struct FlightArguments {
  std::optional<double> window_s;  // nullopt: there is to be no flight recorder
  uint64_t most_bytes = 256u << 20;
  std::vector<FlightTrigger> triggers;
  uint32_t most_dumps = 10;
  std::string fleet;  // the directory that summaries go into; empty: there are to be none
  double fleet_every_s = 60;
};

// Returns --flight-recorder itself, which others may exclude.
CLI::Option* AddFlightOptions(CLI::App* record, FlightArguments* arguments);

// "30s" in seconds, a day at most. Fails with kUsage.
absl::StatusOr<double> ParseWindow(const std::string& text);
// "60s" in seconds, whole ones, a day at most. Fails with kUsage.
absl::StatusOr<double> ParseFleetPeriod(const std::string& text);
// "256M" in bytes, 16M at least. Fails with kUsage.
absl::StatusOr<uint64_t> ParseFlightMemory(const std::string& text);
// "step>2x", "step>500ms", "exit" or "oom". Fails with kUsage.
absl::StatusOr<FlightTrigger> ParseTrigger(const std::string& text);

// Makes the options; nullopt when there is to be no flight recorder. Fails with kUsage where a
// trigger needs memory to be recorded and it is not. Where there is one, SIGUSR1 asks for dumps
// from here on.
absl::StatusOr<std::optional<FlightOptions>> MakeFlightOptions(const FlightArguments& arguments,
                                                               bool records_memory);

}  // namespace proftrace
