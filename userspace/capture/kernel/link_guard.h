// A process of its own that makes the kernel's uprobe links and holds them together with the
// tracer. If a process is killed while the kernel puts its probes in or takes them out, some probes
// stay ("leaking uprobe"). The tracer may be killed at any moment, so the guard opens the links and
// closes them last. When the tracer ends, for whatever reason, the guard sees its socket close and
// then ends without haste.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "userspace/base/unique_fd.h"

namespace proftrace {

// The arguments of BPF_LINK_CREATE for a uprobe.multi link.
struct MultiLinkRequest {
  int program_fd = -1;
  int file_fd = -1;  // the kernel gets this very file, because others may change a path
  std::vector<uint64_t> offsets;
  std::vector<uint64_t> cookies;  // one for each offset
  uint32_t pid = 0;               // 0: every process
};

class LinkGuard;

// One link of the kernel, or the perf event that a link belongs to. Its destructor removes its
// probes, and returns when they are removed.
class ProbeLink {
 public:
  explicit ProbeLink(UniqueFd fd) : fd_(std::move(fd)) {}
  ProbeLink(UniqueFd fd, std::shared_ptr<LinkGuard> guard, int number)
      : fd_(std::move(fd)), guard_(std::move(guard)), number_(number) {}
  ProbeLink(ProbeLink&&) = default;
  ProbeLink& operator=(ProbeLink&& other) noexcept;
  ~ProbeLink() { Close(); }

  // Leaves the link open until this process ends.
  void Abandon();
  // Keeps an object that the link needs for as long as the link exists.
  void Keep(std::shared_ptr<const void> needed) { needed_ = std::move(needed); }

 private:
  void Close();

  UniqueFd fd_;
  std::shared_ptr<LinkGuard> guard_;  // null: no guard holds the link
  int number_ = -1;                   // the guard's number of this link
  std::shared_ptr<const void> needed_;
};

using LinkSet = std::vector<ProbeLink>;

// May be used from several threads.
class LinkGuard : public std::enable_shared_from_this<LinkGuard> {
 public:
  // Starts the guard process. Where that is not possible, Create() makes links in this process.
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

  std::mutex mutex_;  // only one request to the guard at a time
  UniqueFd socket_;   // invalid: there is no guard process
  pid_t pid_ = -1;
};

}  // namespace proftrace
