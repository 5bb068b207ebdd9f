// Makes the result directories of a flight recorder: DIR/dump_0, DIR/dump_1 and so on. A thread
// writes a dump's capture, so that the recording goes on. Another process of this program, at low
// priority, makes the outputs: so they do not use the recorder's memory, and their failures do not
// end the recording.
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

#include "userspace/capture/session/flight_recorder.h"
#include "userspace/cli/result_directory.h"

namespace proftrace {

class FlightDumps {
 public:
  struct Options {
    const ResultDirectory* directory;  // must outlive this object
    std::string formats;               // formats as for `proftrace export --format`
    bool force = false;
    bool strict = false;
    bool quiet = false;
    bool json = false;  // whether an event is written for each dump
  };

  explicit FlightDumps(Options options);
  ~FlightDumps();
  FlightDumps(const FlightDumps&) = delete;
  FlightDumps& operator=(const FlightDumps&) = delete;

  // Takes a dump to be written soon, and says so on stderr. May be called from any thread. The dump
  // is refused where others already wait for a slow disk, because each waiting dump holds its
  // records in memory.
  void Add(FlightDump dump);
  // Writes the last dump, after all earlier ones. Its outputs are left to the caller.
  absl::StatusOr<ResultDirectory> WriteLast(const FlightDump& dump);
  // Waits until all outputs are there. Returns the first error; with --strict also kEventsLost.
  absl::Status Finish();

 private:
  struct Outputs {
    std::string directory;  // for messages
    pid_t pid = -1;
  };

  void Run();
  absl::StatusOr<ResultDirectory> Write(const FlightDump& dump);
  // These functions may be called by the thread itself, or by a caller that has joined it.
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
  std::deque<ResultDirectory> waiting_;  // directories whose outputs are still to be made
  std::optional<Outputs> running_;
  std::thread thread_;
};

}  // namespace proftrace
