// The side of `proftrace top` that records: gives the process that shows what it asks for, while
// the recording goes on. That process has read what a job made, so that it is asked for nothing but
// words of top_messages.h.
#pragma once

#include <absl/status/status.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "userspace/base/unique_fd.h"
#include "userspace/capture/flight_recorder.h"
#include "userspace/cli/flight_dumps.h"
#include "userspace/cli/message_catcher.h"
#include "userspace/cli/result_directory.h"
#include "userspace/cli/result_name.h"

namespace proftrace {

class TopDesk {
 public:
  struct Options {
    int socket = -1;        // to the process that shows; outlives this
    int capture = -1;       // the file that captures are written into; outlives this
    std::vector<Pid> pids;  // that stacks may be shown of; empty: of all PyTorch processes
    // Where kept recordings go; none: into one with a name of ours, of these facts, when the first
    // is kept.
    std::optional<ResultDirectory> directory;
    std::string comm;
    ResultNameFacts facts;
    std::string formats;  // of kept recordings
    bool force = false;
    MessageCatcher* catcher = nullptr;  // outlives this
    std::atomic<bool>* stop = nullptr;  // set where the user, or the process, has enough
  };

  explicit TopDesk(Options options);
  ~TopDesk();
  TopDesk(const TopDesk&) = delete;
  TopDesk& operator=(const TopDesk&) = delete;

  // How often a dump of the flight recorder was asked for: FlightOptions::signals.
  const std::atomic<uint32_t>* asked() const { return &asked_; }

  // Tells that the probes are live.
  void Begin();
  // Takes a dump that was asked for; from the thread that records.
  void Take(FlightDump dump);
  // Ends the thread and tells that there is no more but `last`, for which the process that shows
  // asks if it has a use for it and the user has not asked for the end.
  void End(std::optional<FlightDump> last);
  // Waits for the outputs of kept recordings. The first error of theirs. Where none was kept, the
  // directory that was made for them goes.
  absl::Status FinishKept();
  // Whether the process that shows has gone without being told to.
  bool was_left() const { return was_left_; }

 private:
  void Run();
  void OnMessage(const std::string& message);
  void GiveLast(const FlightDump& last);
  void OnDump(const FlightDump& dump);
  absl::Status WriteCapture(const FlightDump& dump);
  void Keep(FlightDump dump);
  // Shows stacks: of `text`'s process, where that may be.
  void ShowStacks(const std::string& text);
  void Tell(char kind, std::string_view text = "");
  void TellMessages();

  Options options_;
  std::atomic<uint32_t> asked_{0};
  std::atomic<bool> shows_{false};  // a capture is asked for
  std::atomic<bool> keeps_{false};
  std::mutex mutex_;
  std::vector<FlightDump> dumps_;
  bool is_ending_ = false;
  UniqueFd wake_;  // eventfd(2): there are dumps, or it ends
  bool was_left_ = false;
  bool has_enough_ = false;  // the process that shows has said that it ends
  std::optional<FlightDumps> kept_;
  std::thread thread_;
};

}  // namespace proftrace
