// Makes models of captures on a thread of its own, so that keys are answered meanwhile. It works on
// one capture at a time.
#pragma once

#include <absl/status/statusor.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "userspace/base/unique_fd.h"
#include "userspace/cli/results.h"
#include "userspace/top/top_model.h"

namespace proftrace {

struct TopRefresh {
  absl::StatusOr<std::shared_ptr<const TopModel>> model;
  double seconds = 0;     // how long the refresh took
  bool was_read = false;  // whether the capture was read anew
};

class TopRefresher {
 public:
  // Starts the thread. `capture`: a file that another process writes. `on_ready` is called on the
  // thread when there is something to Take(). The thread is never joined: it ends with the process.
  static std::shared_ptr<TopRefresher> Start(int capture, std::function<void()> on_ready);

  // Reads the capture anew. The file must not change until the refresh was taken. `threads`: as for
  // BuildTopModel().
  void Read(const TopThreads& threads);
  // Makes a new model of the capture that was read last, for other threads.
  void Rebuild(const TopThreads& threads);
  bool is_busy() const { return is_busy_.load(); }
  std::optional<TopRefresh> Take();

 private:
  TopRefresher(int capture, std::function<void()> on_ready)
      : capture_(capture), on_ready_(std::move(on_ready)) {}

  struct Order {
    bool reads = false;
    TopThreads threads;
  };
  void Give(Order order);
  void Run();
  TopRefresh Do(const Order& order);

  const int capture_;
  const std::function<void()> on_ready_;
  std::optional<Results> results_;  // used by the thread alone
  std::atomic<bool> is_busy_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Order> order_;
  std::optional<TopRefresh> done_;
};

}  // namespace proftrace
