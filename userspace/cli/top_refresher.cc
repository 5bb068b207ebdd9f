#include "userspace/cli/top_refresher.h"

#include <fcntl.h>
#include <malloc.h>
#include <sys/resource.h>

#include <cerrno>
#include <thread>
#include <utility>

#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/wire/capture_reader.h"

namespace proftrace {
namespace {

constexpr int kRefreshPriority = 10;

absl::StatusOr<Results> ReadCapture(int capture) {
  UniqueFd file(fcntl(capture, F_DUPFD_CLOEXEC, 0));
  if (!file.valid()) return NoMoreDescriptors(errno);
  const absl::StatusOr<std::unique_ptr<CaptureReader>> reader =
      CaptureReader::OpenFile(file.Release(), "the last seconds", {});
  if (!reader.ok()) return reader.status();
  AggregateOptions options;
  options.stacks = false;
  options.sums_all_steps = true;
  return LoadResults(reader->get(), "", options);
}

}  // namespace

std::shared_ptr<TopRefresher> TopRefresher::Start(int capture, std::function<void()> on_ready) {
  std::shared_ptr<TopRefresher> refresher(new TopRefresher(capture, std::move(on_ready)));
  std::thread([refresher] { refresher->Run(); }).detach();
  return refresher;
}

void TopRefresher::Read(const TopThreads& threads) { Give({true, threads}); }

void TopRefresher::Rebuild(const TopThreads& threads) { Give({false, threads}); }

void TopRefresher::Give(Order order) {
  const std::lock_guard lock(mutex_);
  order_ = std::move(order);
  is_busy_ = true;
  changed_.notify_all();
}

std::optional<TopRefresh> TopRefresher::Take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(done_, std::nullopt);
}

void TopRefresher::Run() {
  // This thread is less urgent than the job. The thread that answers keys keeps its priority.
  setpriority(PRIO_PROCESS, 0, kRefreshPriority);
  while (true) {
    Order order;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return order_.has_value(); });
      order = *std::exchange(order_, std::nullopt);
    }
    TopRefresh done = Do(order);
    {
      const std::lock_guard lock(mutex_);
      done_ = std::move(done);
      is_busy_ = order_.has_value();
    }
    on_ready_();
  }
}

TopRefresh TopRefresher::Do(const Order& order) {
  const int64_t begin_ns = MonotonicNs();
  TopRefresh refresh;
  refresh.was_read = order.reads;
  if (order.reads) {
    // The old results are freed first, so that there are never two in memory. Their memory goes
    // back to the system, so that hours of refreshes need no more than the largest one.
    results_.reset();
    malloc_trim(0);
    absl::StatusOr<Results> results = ReadCapture(capture_);
    if (!results.ok()) {
      refresh.model = results.status();
      return refresh;
    }
    results_ = *std::move(results);
  }
  if (!results_.has_value()) {
    refresh.model = Fail(ExitCode::kBug, "there is no capture to show");
    return refresh;
  }
  refresh.model = std::make_shared<const TopModel>(
      BuildTopModel(*results_->timeline, results_->aggregates, order.threads));
  refresh.seconds = ToSeconds(MonotonicNs() - begin_ns);
  return refresh;
}

}  // namespace proftrace
