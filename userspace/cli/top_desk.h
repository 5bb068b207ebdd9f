// The recording side of `proftrace top`. While the recording goes on, it gives the viewer (the
// process that shows the screen) the captures and texts that the viewer asks for. The viewer reads
// data that a job made and so is not trusted: only the messages of top_messages.h are taken from
// it.
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
#include "userspace/capture/session/flight_recorder.h"
#include "userspace/cli/flight_dumps.h"
#include "userspace/cli/message_catcher.h"
#include "userspace/cli/result_directory.h"
#include "userspace/cli/result_name.h"

namespace proftrace {

class TopDesk {
 public:
  struct Options {
    int socket = -1;        // to the viewer; outlives this object
    int capture = -1;       // the file that captures are written into; outlives this object
    std::vector<Pid> pids;  // processes whose stacks may be shown; empty: all PyTorch processes
    // The directory that kept recordings go to. nullopt: a directory named by `comm` and `facts`,
    // which is made when the first recording is kept.
    std::optional<ResultDirectory> directory;
    std::string comm;
    ResultNameFacts facts;
    std::string formats;  // formats of kept recordings
    bool force = false;
    MessageCatcher* catcher = nullptr;  // outlives this object
    std::atomic<bool>* stop = nullptr;  // is set when the user or the viewer asks for the end
  };

  explicit TopDesk(Options options);
  ~TopDesk();
  TopDesk(const TopDesk&) = delete;
  TopDesk& operator=(const TopDesk&) = delete;

  // Returns the counter of dumps that were asked for, for FlightOptions::signals.
  const std::atomic<uint32_t>* asked() const { return &asked_; }

  // Tells the viewer that the probes are live.
  void Begin();
  // Takes a dump that was asked for. To be called by the recording thread.
  void Take(FlightDump dump);
  // Ends the thread, and tells the viewer that nothing comes any more but `last`. The viewer asks
  // for `last` if it needs it and the user has not asked for the end.
  void End(std::optional<FlightDump> last);
  // Waits for the outputs of kept recordings, and returns their first error. Where none was kept,
  // the directory that was made for them is removed.
  absl::Status FinishKept();
  // Returns whether the viewer has ended without being told to.
  bool was_left() const { return was_left_; }

 private:
  void Run();
  void OnMessage(const std::string& message);
  void GiveLast(const FlightDump& last);
  void OnDump(const FlightDump& dump);
  absl::Status WriteCapture(const FlightDump& dump);
  void Keep(FlightDump dump);
  // Sends stacks to the viewer: those of Options::pids or, where these are empty, of the PyTorch
  // process whose PID is `text`.
  void ShowStacks(const std::string& text);
  void Tell(char kind, std::string_view text = "");
  void TellMessages();
  // Tells the viewer which of Options::pids stand still, when that has changed.
  void TellStandstills();

  Options options_;
  std::atomic<uint32_t> asked_{0};
  std::atomic<bool> shows_{false};  // a capture is asked for
  std::atomic<bool> keeps_{false};
  std::mutex mutex_;
  std::vector<FlightDump> dumps_;
  bool is_ending_ = false;
  UniqueFd wake_;  // eventfd(2) that wakes the thread for a dump or for the end
  bool was_left_ = false;
  bool has_enough_ = false;  // the viewer has said that it ends
  std::string standstills_;  // what was told last; empty: nothing stands still
  std::optional<FlightDumps> kept_;
  std::thread thread_;
};

}  // namespace proftrace
