// Puts a flight recorder's summaries into the directory of a fleet (--fleet), one a period. A
// thread writes the window's capture into a file without a name in that directory; another process
// of this program, at low priority, reads it and adds the rows, so that what that takes is not the
// recorder's memory, and nothing that goes wrong with it ends the recording.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "userspace/capture/flight_recorder.h"
#include "userspace/fleet_tables/fleet_directory.h"

namespace proftrace {

class FleetSummaries {
 public:
  // Opens the directory, or makes it. Fails as FleetDirectory::OpenOrMake() does.
  static absl::StatusOr<std::unique_ptr<FleetSummaries>> Begin(const std::string& directory);
  ~FleetSummaries();
  FleetSummaries(const FleetSummaries&) = delete;
  FleetSummaries& operator=(const FleetSummaries&) = delete;

  // Takes a window that is to be summarised soon. From any thread. It is left out where the one
  // before it is still being worked on, which is said: two of them would take the host's time.
  void Add(FlightDump window);
  // Waits for the last one. The first error: a summary that was not written is one.
  absl::Status Finish();

 private:
  explicit FleetSummaries(std::unique_ptr<FleetDirectory> directory);

  void Run();
  absl::Status Summarise(const FlightDump& window);
  // Says an error, once for each reason: a disk that is full is so for hours.
  void Note(const absl::Status& status);

  std::unique_ptr<FleetDirectory> directory_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<FlightDump> windows_;
  bool is_busy_ = false;
  bool stop_ = false;
  absl::Status status_;
  std::set<std::string> told_;
  std::thread thread_;
};

}  // namespace proftrace
