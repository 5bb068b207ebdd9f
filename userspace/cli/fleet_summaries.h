// Puts a flight recorder's summaries into the directory of a fleet (--fleet), one per period. A
// thread writes the window's capture into a file without a name in that directory. Another process
// of this program, at low priority, reads the file and adds the rows: so it does not use the
// recorder's memory, and its failures do not end the recording.
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

#include "userspace/capture/session/flight_recorder.h"
#include "userspace/fleet_tables/fleet_directory.h"

namespace proftrace {

class FleetSummaries {
 public:
  // Opens the directory, or makes it. Fails as FleetDirectory::OpenOrMake() does.
  static absl::StatusOr<std::unique_ptr<FleetSummaries>> Begin(const std::string& directory);
  ~FleetSummaries();
  FleetSummaries(const FleetSummaries&) = delete;
  FleetSummaries& operator=(const FleetSummaries&) = delete;

  // Takes a window to be summarised soon. May be called from any thread. The window is left out,
  // with a message, where the one before it is still being summarised: two at a time would take too
  // much of the host's processor time.
  void Add(FlightDump window);
  // Waits for the last summary. Returns the first error; a summary that was not written is one.
  absl::Status Finish();

 private:
  explicit FleetSummaries(std::unique_ptr<FleetDirectory> directory);

  void Run();
  absl::Status Summarise(const FlightDump& window);
  // Prints an error, but only once for each message, because a full disk may stay full for hours.
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
