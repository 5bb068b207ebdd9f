#include "userspace/cli/top_viewer.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/unique_fd.h"
#include "userspace/cli/terminal_screen.h"
#include "userspace/cli/top_messages.h"
#include "userspace/cli/top_refresher.h"
#include "userspace/top/screen_difference.h"
#include "userspace/top/top_json.h"
#include "userspace/top/top_keys.h"
#include "userspace/top/top_screen.h"

namespace proftrace {
namespace {

constexpr int kPlainColumns = 80;
// Lines above the table of a screen that is printed as text, with one for hints.
constexpr int kHeadRows = 10;
// A key sequence that begins with Escape ends when nothing has followed for this time.
constexpr int kEscapeMs = 50;
constexpr int kLongestWaitMs = 1000;
// A window ends at most this long before it is asked for.
constexpr int64_t kLatestNs = 1'000'000'000;
// The most that a first view waits for, besides kLatestNs.
constexpr int64_t kFirstViewNs = 500'000'000;

// A pipe that wakes the loop. A byte is a signal's number, or 0 where a refresh is done.
int g_wake_fd = -1;

void Wake(char what) { [[maybe_unused]] const ssize_t written = write(g_wake_fd, &what, 1); }

void OnSignal(int number) {
  const int error = errno;
  Wake(static_cast<char>(number));
  errno = error;
}

// Ignores the signals that go to the whole process group, because the parent decides what they
// mean.
void IgnoreStops() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGTTOU, SIGPIPE, SIGUSR1}) {
    signal(number, SIG_IGN);
  }
}

bool IsUtf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    std::string text(value);
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) {
      return static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    });
    return text.find("UTF-8") != std::string::npos || text.find("UTF8") != std::string::npos;
  }
  return false;
}

bool HasColours() {
  const char* none = std::getenv("NO_COLOR");
  return none == nullptr || *none == '\0';
}

class TopViewer {
 public:
  TopViewer(const TopViewOptions& options, int socket, int capture)
      : options_(options),
        socket_(socket),
        is_utf8_(IsUtf8()),
        has_colours_(HasColours()),
        state_(options.state) {
    status_.asked_interval_s = status_.interval_s = options.interval_s;
    status_.has_keys = IsScreen();
    has_modes_ = IsScreen() && TerminalScreen::ReadModes(&modes_);
    int ends[2] = {-1, -1};
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0) {
      wake_read_ = UniqueFd(ends[0]);
      wake_write_ = UniqueFd(ends[1]);
    }
    g_wake_fd = wake_write_.get();
    refresher_ = TopRefresher::Start(capture, [] { Wake(0); });
  }

  absl::Status Run() {
    IgnoreStops();
    if (IsScreen()) {
      struct sigaction action {};
      action.sa_handler = OnSignal;
      sigaction(SIGWINCH, &action, nullptr);
      sigaction(SIGCONT, &action, nullptr);
    }
    while (!is_over_) {
      Look();
      if (is_over_) break;
      // After the end of the recording, only a capture that was asked for still comes; then the
      // other side is gone.
      const bool hears = !is_ending_ || is_asked_;
      pollfd waited[3] = {{hears ? socket_ : -1, POLLIN, 0},
                          {wake_read_.get(), POLLIN, 0},
                          {IsScreen() && !is_input_over_ ? STDIN_FILENO : -1, POLLIN, 0}};
      const int ready = poll(waited, 3, WaitMs());
      if (ready == 0 && keys_.is_waiting()) OnKeys(keys_.Flush());
      if (ready <= 0) continue;
      if (waited[1].revents != 0) OnWake();
      if (waited[0].revents != 0) OnMessage(ReceiveTopMessage(socket_));
      if (waited[2].revents != 0) OnInput();
    }
    return status_of_output_;
  }

 private:
  bool IsScreen() const { return options_.output == TopOutput::kScreen; }

  // Asks for a capture when one is due, and draws the screen when something has changed.
  void Look() {
    const int64_t now_ns = MonotonicNs();
    const bool may_ask = has_begun_ && !is_ending_ && !is_asked_ && !refresher_->is_busy();
    if (may_ask && !state_.is_paused && now_ns >= next_ns_) {
      asked_ns_ = now_ns;
      is_asked_ = true;
      Tell(kTopAskCapture);
    }
    if (is_ending_ && !refresher_->is_busy()) LookAtEnd(now_ns);
    if (IsScreen() && has_begun_ && is_changed_ && !is_over_) Draw();
  }

  // Shows the last seconds at the end of the recording, if nothing was shown before.
  void LookAtEnd(int64_t now_ns) {
    if (std::optional<TopRefresh> refresh = refresher_->Take()) OnRefresh(*refresh);
    if (is_over_ || is_asked_) return;
    if (!has_begun_ || has_asked_last_) {
      is_over_ = true;
      return;
    }
    has_asked_last_ = is_asked_ = true;
    asked_ns_ = now_ns;
    Tell(kTopAskCapture);
  }

  int WaitMs() const {
    if (keys_.is_waiting()) return kEscapeMs;
    if (!has_begun_ || is_asked_ || refresher_->is_busy() || state_.is_paused) {
      return kLongestWaitMs;
    }
    const int64_t left_ms = (next_ns_ - MonotonicNs()) / 1'000'000 + 1;
    return static_cast<int>(std::clamp<int64_t>(left_ms, 0, kLongestWaitMs));
  }

  void Tell(char kind, const std::string& text = "") {
    if (!SendTopMessage(socket_, kind, text)) OnParentGone();
  }

  // The recording process was killed, and cannot bring the terminal back itself.
  void OnParentGone() {
    is_over_ = true;
    if (!IsScreen() || !has_begun_) return;
    // The shell may have written its next prompt on the alternate page, which disappears now.
    (void)WriteFully(STDOUT_FILENO, std::string(kLeaveScreen) +
                                        "\r\nproftrace: the process that recorded was killed\r\n");
    if (has_modes_) TerminalScreen::SetModes(modes_);
  }

  void OnMessage(const std::string& message) {
    if (message.empty()) return OnParentGone();
    const std::string text = message.substr(1);
    switch (message[0]) {
      case kTopBegin:
        has_begun_ = true;
        // With --once the one window must be complete. A live screen should be there soon, and show
        // more than a moment.
        next_ns_ = MonotonicNs() + kLatestNs +
                   (options_.is_once ? options_.window_ns
                                     : std::min({options_.window_ns, kFirstViewNs,
                                                 static_cast<int64_t>(1e9 * options_.interval_s)}));
        break;
      case kTopCapture:
        is_asked_ = false;
        refresher_->Read(state_.threads);
        break;
      case kTopMessage:
        state_.message = text;
        break;
      case kTopText:
      case kTopTextEnd:
        dump_ += text;
        if (message[0] == kTopTextEnd) ShowLines("dump", std::exchange(dump_, ""), &state_);
        break;
      case kTopEnd:
        is_ending_ = true;
        // The last seconds are worth reading only where nothing was shown before.
        if (IsScreen() || model_ != nullptr || text == kTopAtOnce) is_over_ = true;
        break;
      default:
        break;
    }
    is_changed_ = true;
  }

  void OnWake() {
    char what = 0;
    while (read(wake_read_.get(), &what, 1) == 1) {
      if (what == SIGWINCH || what == SIGCONT) shown_.reset();
      is_changed_ = true;
    }
    if (std::optional<TopRefresh> refresh = refresher_->Take()) OnRefresh(*refresh);
  }

  void OnRefresh(const TopRefresh& refresh) {
    const int64_t now_ns = MonotonicNs();
    if (!refresh.model.ok()) {
      state_.message = std::string(refresh.model.status().message());
      next_ns_ = now_ns + static_cast<int64_t>(1e9 * options_.interval_s);
      if (!IsScreen()) Stop(refresh.model.status());
      return;
    }
    model_ = *refresh.model;
    if (refresh.was_read) NoteRefresh(refresh.seconds, now_ns);
    if (!IsScreen()) Print();
  }

  // Takes the figures of a capture that was read. The next capture is read only after a pause as
  // long as this reading took, because the view would always be behind otherwise, and the job needs
  // its processors.
  void NoteRefresh(double seconds, int64_t now_ns) {
    NoteSteps(*model_, &status_);
    const auto interval_ns = static_cast<int64_t>(1e9 * options_.interval_s);
    const int64_t before_ns = std::exchange(last_asked_ns_, asked_ns_);
    next_ns_ = std::max(asked_ns_ + interval_ns, now_ns + static_cast<int64_t>(1e9 * seconds));
    asked_ns_ = 0;
    status_.refresh_s = seconds;
    status_.interval_s = std::max(options_.interval_s, ToSeconds(next_ns_ - last_asked_ns_));
    const int64_t cpu_ns = ProcessCpuNs();
    if (before_ns != 0) {
      const double passed_s = ToSeconds(now_ns - last_refresh_ns_);
      status_.viewer_cpu_percent = 100 * ToSeconds(cpu_ns - viewer_cpu_ns_) / passed_s;
      status_.recorder_cpu_percent = 100 *
                                     std::max(0.0, model_->cost.tracer_cpu_s - recorder_cpu_s_) /
                                     ToSeconds(last_asked_ns_ - before_ns);
    }
    last_refresh_ns_ = now_ns;
    viewer_cpu_ns_ = cpu_ns;
    recorder_cpu_s_ = model_->cost.tracer_cpu_s;
  }

  void OnInput() {
    char bytes[256];
    const ssize_t got = read(STDIN_FILENO, bytes, sizeof(bytes));
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got <= 0) {
      is_input_over_ = true;
      return;
    }
    OnKeys(keys_.Read({bytes, static_cast<size_t>(got)}));
  }

  void OnKeys(const std::vector<TopKey>& keys) {
    static const TopModel kNone;
    for (const TopKey& key : keys) {
      if (!has_begun_) continue;
      state_.message.clear();
      is_changed_ = true;
      Act(OnTopKey(key, model_ == nullptr ? kNone : *model_, page_, &state_));
    }
  }

  void Act(TopAction action) {
    switch (action) {
      case TopAction::kNone:
        return;
      case TopAction::kQuit:
        Tell(kTopAskEnd);
        return;
      case TopAction::kPause:
        if (!state_.is_paused) next_ns_ = MonotonicNs();
        return;
      case TopAction::kThreads:
        if (model_ != nullptr && !refresher_->is_busy()) refresher_->Rebuild(state_.threads);
        return;
      case TopAction::kKeep:
        Tell(kTopAskKeep);
        state_.message = "The last seconds are being kept.";
        return;
      case TopAction::kDump:
        state_.message = "The stacks are being read.";
        Tell(kTopAskDump, model_ == nullptr || !model_->driver.has_value()
                              ? ""
                              : std::to_string(Raw(*model_->driver)));
        return;
    }
  }

  void Draw() {
    winsize size{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) {
      size.ws_row = 24;
      size.ws_col = kPlainColumns;
    }
    auto grid = std::make_unique<TextGrid>(std::min<int>(size.ws_row, 1000),
                                           std::min<int>(size.ws_col, 1000), is_utf8_);
    DrawTop(model_.get(), state_, status_, grid.get(), &page_);
    std::string bytes = ScreenDifference(shown_.get(), *grid, has_colours_);
    // The screen is begun here as well: a shell continues both processes at once, and the other one
    // may not have begun the screen yet.
    if (shown_ == nullptr) bytes.insert(0, kEnterScreen);
    if (!WriteFully(STDOUT_FILENO, bytes)) return OnGone();
    shown_ = std::move(grid);
    is_changed_ = false;
  }

  // Prints the model where there is no screen.
  void Print() {
    std::string text;
    if (options_.output == TopOutput::kJson) {
      text = TopJson(*model_, status_, options_.rows);
    } else {
      TextGrid grid(kHeadRows + static_cast<int>(options_.rows), kPlainColumns, is_utf8_);
      size_t page = 0;
      DrawTop(model_.get(), state_, status_, &grid, &page);
      text = grid.Text();
      if (!options_.is_once) text += "\n";
    }
    if (!WriteFully(STDOUT_FILENO, text)) return OnGone();
    if (options_.is_once) Stop(absl::OkStatus());
  }

  // Ends the viewer, because nobody reads its output or it cannot be written.
  void OnGone() {
    Stop(errno == EPIPE || errno == EIO
             ? absl::OkStatus()
             : Fail(ExitCode::kOutputFailed,
                    "cannot write to standard output: " + ErrnoText(errno)));
  }

  void Stop(const absl::Status& status) {
    status_of_output_ = status;
    Tell(kTopAskEnd);
    is_over_ = true;
  }

  const TopViewOptions options_;
  const int socket_;
  const bool is_utf8_;
  const bool has_colours_;
  termios modes_{};
  bool has_modes_ = false;
  UniqueFd wake_read_;
  UniqueFd wake_write_;
  std::shared_ptr<TopRefresher> refresher_;
  TopKeyReader keys_;
  TopState state_;
  TopStatus status_;
  std::shared_ptr<const TopModel> model_;
  // The screen as last drawn; null where the terminal's contents are not known.
  std::unique_ptr<TextGrid> shown_;
  size_t page_ = 1;
  std::string dump_;  // the pieces of a dump's text that have come so far
  bool has_begun_ = false;
  bool is_changed_ = true;
  bool is_asked_ = false;
  bool is_ending_ = false;
  bool has_asked_last_ = false;
  bool is_over_ = false;
  bool is_input_over_ = false;
  int64_t next_ns_ = 0;   // when the next capture is asked for
  int64_t asked_ns_ = 0;  // when the capture being read was asked for; 0 where none is read
  int64_t last_asked_ns_ = 0;
  int64_t last_refresh_ns_ = 0;
  int64_t viewer_cpu_ns_ = 0;
  double recorder_cpu_s_ = 0;
  absl::Status status_of_output_;
};

}  // namespace

absl::Status ShowTop(const TopViewOptions& options, int socket, int capture) {
  return TopViewer(options, socket, capture).Run();
}

}  // namespace proftrace
