// The result directories of a flight recorder: DIR/dump_0, DIR/dump_1 and so on. A dump's capture
// is written by a thread, so that the recording goes on; its outputs are made by another process of
// this program, at low priority, so that what they take is not the recorder's memory, and nothing
// that goes wrong with them ends the recording.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <sys/types.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "userspace/capture/flight_recorder.h"
#include "userspace/cli/result_directory.h"

namespace proftrace {

class FlightDumps {
 public:
  struct Options {
    const ResultDirectory* directory;  // outlives it
    std::string formats;               // as `proftrace export --format` takes them
    bool force = false;
    bool strict = false;
    bool quiet = false;
    bool json = false;  // an event is written of each dump
  };

  explicit FlightDumps(Options options);
  ~FlightDumps();
  FlightDumps(const FlightDumps&) = delete;
  FlightDumps& operator=(const FlightDumps&) = delete;

  // Takes a dump that is to be written soon, which is said on stderr. From any thread. It is
  // refused where others wait for a slow disk already: each holds in memory what was kept then.
  void Add(FlightDump dump);
  // Writes the last dump now, when all before it have been written; its outputs are left to the
  // caller.
  absl::StatusOr<ResultDirectory> WriteLast(const FlightDump& dump);
  // Waits until all outputs are there. The first error; kEventsLost where --strict asks for it.
  absl::Status Finish();

 private:
  struct Outputs {
    std::string directory;  // for messages
    pid_t pid = -1;
  };

  void Run();
  absl::StatusOr<ResultDirectory> Write(const FlightDump& dump);
  // These are for the thread itself, or for who has joined it.
  void StartOutputs();
  void WaitForOutputs(bool is_patient);
  void Note(const absl::Status& status);

  Options options_;
  uint32_t next_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<FlightDump> dumps_;
  bool stop_ = false;
  bool has_refused_ = false;
  absl::Status status_;
  std::deque<ResultDirectory> waiting_;  // whose outputs are still to be made
  std::optional<Outputs> running_;
  std::thread thread_;
};

}  // namespace proftrace
