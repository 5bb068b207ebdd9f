#include "userspace/capture/kernel/trace_event.h"

#include <bpf/bpf.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <string_view>

#include "symbols/process/process_maps.h"
#include "userspace/base/clock.h"
#include "userspace/base/text.h"
#include "userspace/capture/kernel/address_key.h"

namespace proftrace {
namespace {

constexpr std::string_view kGroup = "proftrace";
constexpr std::string_view kPid = "pid_";  // no name may begin with a digit
// The most bytes of one write. The kernel takes its input in pieces of less than 4096 bytes.
constexpr size_t kMostBytes = 4000;
constexpr size_t kMostEventsBytes = size_t{16} << 20;

std::string TracingFolder() {
  for (const char* folder : {"/sys/kernel/tracing/", "/sys/kernel/debug/tracing/"}) {
    if (access((std::string(folder) + "uprobe_events").c_str(), W_OK) == 0) return folder;
  }
  return "";
}

UniqueFd OpenEvents() {
  return UniqueFd(
      open((TracingFolder() + "uprobe_events").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
}

void Remove(const std::string& name) {
  const UniqueFd events = OpenEvents();
  (void)WriteFully(events.get(), "-:" + name + "\n");
}

// Removes the events of tracers that have ended. Names are GROUP/pid_PID_NUMBER_TIME, with the
// tracer's PID.
void RemoveLeft(const std::string& folder) {
  const std::string events = ReadSmallFile(folder + "uprobe_events", kMostEventsBytes);
  const std::string prefix = "p:" + std::string(kGroup) + "/" + std::string(kPid);
  std::string last;
  for (const std::string_view line : SplitText(events, "\n", /*skip_empty=*/true)) {
    if (!line.starts_with(prefix)) continue;
    const std::string name(line.substr(2, line.find(' ') - 2));
    if (name == last) continue;
    last = name;
    const std::string_view digits = std::string_view(name).substr(prefix.size() - 2);
    pid_t tracer = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), tracer);
    if (error != std::errc() || *end != '_' || tracer <= 0) continue;
    if (kill(tracer, 0) != 0 && errno == ESRCH) Remove(name);
  }
}

}  // namespace

bool CanMakeTraceEvents() {
  const std::string folder = TracingFolder();
  if (folder.empty()) return false;
  RemoveLeft(folder);
  return true;
}

std::unique_ptr<TraceEvent> TraceEvent::Make(int file_fd, const std::vector<ProbePoint>& points) {
  static std::atomic<uint32_t> number = 0;
  const UniqueFd events = OpenEvents();
  if (!events.valid()) return nullptr;
  // The name has the time, because a tracer in another PID namespace may have the same PID.
  const std::string name = std::string(kGroup) + "/" + std::string(kPid) +
                           std::to_string(getpid()) + "_" + std::to_string(++number) + "_" +
                           std::to_string(MonotonicNs());
  const std::string begin = "p:" + name + " " + LinkOfDescriptor(file_fd) + ":";
  // From here on the destructor removes the probes that were made.
  std::unique_ptr<TraceEvent> event(new TraceEvent(name, 0));
  std::string lines;
  for (size_t i = 0; i < points.size(); ++i) {
    lines += begin + std::to_string(points[i].file_offset) + "\n";
    const bool is_last = i + 1 == points.size();
    if (!is_last && lines.size() + begin.size() + 24 < kMostBytes) continue;
    if (!WriteFully(events.get(), lines)) return nullptr;
    lines.clear();
  }
  const std::string id = ReadSmallFile(TracingFolder() + "events/" + name + "/id", 32);
  event->id_ = std::strtoull(id.c_str(), nullptr, 10);
  if (event->id_ == 0) errno = ENOENT;
  return event->id_ == 0 ? nullptr : std::move(event);
}

TraceEvent::~TraceEvent() {
  const int error = errno;
  Remove(name_);
  errno = error;
}

int TraceEvent::Open(Pid pid, int program_fd, UniqueFd* event) const {
  perf_event_attr attributes{};
  attributes.size = sizeof(attributes);
  attributes.type = PERF_TYPE_TRACEPOINT;
  attributes.config = id_;
  attributes.sample_period = 1;
  // The program runs for every thread, because the kernel only compares the process's memory.
  UniqueFd opened(
      static_cast<int>(syscall(SYS_perf_event_open, &attributes, static_cast<pid_t>(Raw(pid)), -1,
                               -1, PERF_FLAG_FD_CLOEXEC)));
  if (!opened.valid()) return errno;
  if (ioctl(opened.get(), PERF_EVENT_IOC_SET_BPF, program_fd) != 0) return errno;
  *event = std::move(opened);
  return 0;
}

std::unique_ptr<ProbeAddresses> ProbeAddresses::Put(int map_fd, Pid pid, const FileId& file,
                                                    const std::vector<ProbePoint>& points) {
  const absl::StatusOr<std::vector<Mapping>> mappings = ReadMaps(pid);
  if (!mappings.ok()) return nullptr;
  std::unique_ptr<ProbeAddresses> put(new ProbeAddresses(map_fd, pid));
  for (const Mapping& mapping : *mappings) {
    if (!mapping.executable || mapping.inode != file.inode || mapping.device != file.device) {
      continue;
    }
    const uint64_t bytes = mapping.end - mapping.start;
    for (const ProbePoint& point : points) {
      if (point.file_offset < mapping.file_offset ||
          point.file_offset - mapping.file_offset >= bytes) {
        continue;
      }
      const AddressKey key{mapping.start + (point.file_offset - mapping.file_offset), Raw(pid)};
      if (bpf_map_update_elem(map_fd, &key, &point.cookie, BPF_ANY) != 0) return nullptr;
      put->addresses_.push_back(key.address);
    }
  }
  return put->addresses_.empty() ? nullptr : std::move(put);
}

ProbeAddresses::~ProbeAddresses() {
  const int error = errno;
  for (const uint64_t address : addresses_) {
    const AddressKey key{address, Raw(pid_)};
    (void)bpf_map_delete_elem(map_fd_, &key);
  }
  errno = error;
}

}  // namespace proftrace
