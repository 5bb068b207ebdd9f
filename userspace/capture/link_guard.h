// A process of its own that makes the kernel's uprobe links and holds them together with the
// tracer. The kernel takes no probe out for a process that is being killed in the middle of it
// ("leaking uprobe"): so a tracer that may be killed at any moment does neither the putting in nor
// the last closing itself. When the tracer ends, however it comes, the guard sees its socket close
// and ends too, unhurried.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "userspace/base/unique_fd.h"

namespace proftrace {

// What BPF_LINK_CREATE takes for a uprobe.multi link.
struct MultiLinkRequest {
  int program_fd = -1;
  int file_fd = -1;  // the kernel is given this very file, not a path that others may change
  std::vector<uint64_t> offsets;
  std::vector<uint64_t> cookies;  // as many
  uint32_t pid = 0;               // 0 = every process
};

class LinkGuard;

// One link of the kernel (or a perf event that one hangs on). Its end removes its probes, and
// returns when they are removed.
class ProbeLink {
 public:
  explicit ProbeLink(UniqueFd fd) : fd_(std::move(fd)) {}
  ProbeLink(UniqueFd fd, std::shared_ptr<LinkGuard> guard, int number)
      : fd_(std::move(fd)), guard_(std::move(guard)), number_(number) {}
  ProbeLink(ProbeLink&&) = default;
  ProbeLink& operator=(ProbeLink&& other) noexcept;
  ~ProbeLink() { Close(); }

  // Leaves it to the end of this process.
  void Abandon();
  // Keeps what the link needs for as long as it is there.
  void Keep(std::shared_ptr<const void> needed) { needed_ = std::move(needed); }

 private:
  void Close();

  UniqueFd fd_;
  std::shared_ptr<LinkGuard> guard_;  // null: nobody else holds it
  int number_ = -1;                   // the guard's, for it
  std::shared_ptr<const void> needed_;
};

using LinkSet = std::vector<ProbeLink>;

// Used from several threads.
class LinkGuard : public std::enable_shared_from_this<LinkGuard> {
 public:
  // Starts the process; where that is not possible, Create works without it.
  static std::shared_ptr<LinkGuard> Start();
  // Ends the process and waits for it.
  ~LinkGuard();
  LinkGuard(const LinkGuard&) = delete;
  LinkGuard& operator=(const LinkGuard&) = delete;

  // Appends the link to `links`; returns the errno on failure.
  int Create(const MultiLinkRequest& request, LinkSet* links);

 private:
  friend class ProbeLink;
  LinkGuard() = default;
  void Drop(int number);

  std::mutex mutex_;  // one question at a time
  UniqueFd socket_;   // none: no such process
  pid_t pid_ = -1;
};

}  // namespace proftrace
