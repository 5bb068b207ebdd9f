#include "userspace/cli/top_desk.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "userspace/base/exit_status.h"
#include "userspace/base/shown_text.h"
#include "userspace/base/text.h"
#include "userspace/capture/targets/target_info.h"
#include "userspace/cli/dump_text.h"
#include "userspace/cli/process_dump.h"
#include "userspace/cli/say.h"
#include "userspace/cli/top_messages.h"
#include "userspace/inject/standstill.h"
#include "userspace/wire/capture_writer.h"

namespace proftrace {
namespace {

constexpr int kLookMs = 500;
// The most bytes of stacks that are shown, because nobody reads the stacks of thousands of threads.
constexpr size_t kMostStackBytes = size_t{4} << 20;

}  // namespace

TopDesk::TopDesk(Options options)
    : options_(std::move(options)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  thread_ = std::thread([this] { Run(); });
}

TopDesk::~TopDesk() {
  if (thread_.joinable()) End(std::nullopt);
}

void TopDesk::Tell(char kind, std::string_view text) {
  if (!SendTopMessage(options_.socket, kind, text)) was_left_ = !has_enough_;
}

void TopDesk::Begin() { (void)SendTopMessage(options_.socket, kTopBegin); }

void TopDesk::Take(FlightDump dump) {
  {
    const std::lock_guard lock(mutex_);
    dumps_.push_back(std::move(dump));
  }
  eventfd_write(wake_.get(), 1);
}

void TopDesk::End(std::optional<FlightDump> last) {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  eventfd_write(wake_.get(), 1);
  thread_.join();
  const bool is_asked = options_.stop->load(std::memory_order_relaxed);
  Tell(kTopEnd, is_asked ? kTopAtOnce : "");
  if (last.has_value() && !is_asked) GiveLast(*last);
  (void)shutdown(options_.socket, SHUT_RDWR);
}

void TopDesk::GiveLast(const FlightDump& last) {
  while (!shows_ && !was_left_ && !has_enough_) OnMessage(ReceiveTopMessage(options_.socket));
  OnDump(last);
}

void TopDesk::Run() {
  bool is_over = false;
  while (!is_over) {
    pollfd waited[3] = {{was_left_ || has_enough_ ? -1 : options_.socket, POLLIN, 0},
                        {wake_.get(), POLLIN, 0},
                        {options_.catcher->fd(), POLLIN, 0}};
    (void)poll(waited, 3, kLookMs);
    if (waited[0].revents != 0) OnMessage(ReceiveTopMessage(options_.socket));
    TellMessages();
    eventfd_t count = 0;
    (void)eventfd_read(wake_.get(), &count);
    std::vector<FlightDump> dumps;
    {
      const std::lock_guard lock(mutex_);
      dumps.swap(dumps_);
      is_over = is_ending_;
    }
    for (const FlightDump& dump : dumps) OnDump(dump);
  }
}

void TopDesk::TellMessages() {
  for (const std::string& line : options_.catcher->Take()) Tell(kTopMessage, line);
}

void TopDesk::TellStandstills() {
  std::string now;
  for (const Pid pid : options_.pids) {
    const std::optional<Standstill> still = FindStandstill(pid);
    if (still.has_value()) now += (now.empty() ? "" : "; ") + still->sentence;
  }
  if (now == standstills_) return;
  standstills_ = std::move(now);
  Tell(kTopMessage, standstills_.empty() ? "The job goes on." : standstills_);
}

void TopDesk::OnMessage(const std::string& message) {
  if (message.empty()) was_left_ = true;
  const char kind = message.empty() ? kTopAskEnd : message[0];
  switch (kind) {
    case kTopAskCapture:
      shows_ = true;
      ++asked_;
      return;
    case kTopAskKeep:
      keeps_ = true;
      ++asked_;
      return;
    case kTopAskDump:
      ShowStacks(message.substr(1));
      return;
    default:
      has_enough_ = !message.empty();
      options_.stop->store(true, std::memory_order_relaxed);
      return;
  }
}

void TopDesk::OnDump(const FlightDump& dump) {
  if (keeps_.exchange(false)) Keep(dump);
  if (!shows_.exchange(false) || was_left_) return;
  const absl::Status status = WriteCapture(dump);
  // The viewer will find that the capture is not whole, and goes on with the next one.
  if (!status.ok()) Tell(kTopMessage, std::string(status.message()));
  Tell(kTopCapture);
  TellStandstills();
}

absl::Status TopDesk::WriteCapture(const FlightDump& dump) {
  UniqueFd file(fcntl(options_.capture, F_DUPFD_CLOEXEC, 0));
  if (!file.valid()) return NoMoreDescriptors(errno);
  if (ftruncate(file.get(), 0) != 0 || lseek(file.get(), 0, SEEK_SET) != 0) {
    return Fail(ExitCode::kHostUnfit,
                "cannot empty the file of the last seconds: " + ErrnoText(errno));
  }
  const absl::StatusOr<std::unique_ptr<CaptureWriter>> writer =
      CaptureWriter::Create(file.Release(), "the last seconds");
  return writer.ok() ? dump.WriteTo(writer->get()) : writer.status();
}

void TopDesk::Keep(FlightDump dump) {
  std::optional<ResultDirectory>& directory = options_.directory;
  if (!directory.has_value()) {
    absl::StatusOr<ResultDirectory> made =
        ResultDirectory::Prepare(DefaultResultName(options_.comm, options_.facts), options_.force);
    if (!made.ok()) {
      Say("%s", std::string(made.status().message()).c_str());
      return;
    }
    directory = *std::move(made);
  }
  if (!kept_.has_value()) {
    kept_.emplace(FlightDumps::Options{&*directory, options_.formats, options_.force,
                                       /*strict=*/false, /*quiet=*/false});
  }
  kept_->Add(std::move(dump));
}

absl::Status TopDesk::FinishKept() {
  if (kept_.has_value()) return kept_->Finish();
  if (options_.directory.has_value()) options_.directory->Discard();
  return absl::OkStatus();
}

void TopDesk::ShowStacks(const std::string& text) {
  std::vector<Pid> pids = options_.pids;
  if (pids.empty()) {
    // The viewer may only see processes that could be recorded.
    const std::optional<uint32_t> asked = ParseNumber<uint32_t>(text);
    for (const Pid pid : FindTorchProcesses().pids) {
      if (asked == Raw(pid)) pids.push_back(pid);
    }
  }
  std::string stacks;
  for (const Pid pid : pids) {
    const absl::StatusOr<ProcessDump> dump = TakeDump(pid);
    if (!stacks.empty()) stacks += "\n";
    stacks += dump.ok() ? DumpText(*dump) : ShownText(std::string(dump.status().message())) + "\n";
    if (stacks.size() > kMostStackBytes) break;
  }
  if (stacks.empty()) stacks = "There is no process whose stacks could be shown.\n";
  std::string_view rest = std::string_view(stacks).substr(0, kMostStackBytes);
  while (rest.size() >= kMostTopMessageBytes) {
    Tell(kTopText, rest.substr(0, kMostTopMessageBytes - 1));
    rest.remove_prefix(kMostTopMessageBytes - 1);
  }
  Tell(kTopTextEnd, rest);
}

}  // namespace proftrace
