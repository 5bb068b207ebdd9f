// The option --flight-recorder and the options that go with it.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "userspace/capture/session/flight_recorder.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace proftrace {

struct FlightArguments {
  std::optional<double> window_s;  // nullopt where no flight recorder is asked for
  uint64_t most_bytes = 256u << 20;
  std::vector<FlightTrigger> triggers;
  uint32_t most_dumps = 10;
  std::string fleet;  // the directory that summaries go into; empty where none are asked for
  double fleet_every_s = 60;
};

// Returns the option --flight-recorder, so that other options can exclude it.
CLI::Option* AddFlightOptions(CLI::App* record, FlightArguments* arguments);

// Returns a text like "30s" in seconds; a day at most. Fails with kUsage.
absl::StatusOr<double> ParseWindow(const std::string& text);
// Returns a text like "60s" in seconds; only whole seconds, a day at most. Fails with kUsage.
absl::StatusOr<double> ParseFleetPeriod(const std::string& text);
// Returns a text like "256M" in bytes; at least 16M. Fails with kUsage.
absl::StatusOr<uint64_t> ParseFlightMemory(const std::string& text);
// Parses "step>2x", "step>500ms", "exit" or "oom". Fails with kUsage.
absl::StatusOr<FlightTrigger> ParseTrigger(const std::string& text);

// Makes the options of the recording; nullopt where no flight recorder is asked for. Fails with
// kUsage where a trigger needs recorded memory events and they are not recorded. With a flight
// recorder, SIGUSR1 asks for a dump from here on.
absl::StatusOr<std::optional<FlightOptions>> MakeFlightOptions(const FlightArguments& arguments,
                                                               bool records_memory);

}  // namespace proftrace
