#include "userspace/capture/kernel/attach.h"

#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <utility>

#include "symbols/process/process_maps.h"
#include "userspace/base/exit_status.h"
#include "userspace/capture/kernel/cookie_table.h"
#include "userspace/capture/kernel/trace_event.h"
#include "userspace/sandbox/rights.h"

namespace proftrace {
namespace {

// From linux/bpf.h of 6.6: the distribution's header and libbpf may be older than the kernel.
constexpr uint32_t kAttachTypePerfEvent = 41;
constexpr int kBpfLinkCreate = 28;

struct PerfLinkAttributes {
  uint32_t prog_fd;
  uint32_t target_fd;
  uint32_t attach_type;
  uint32_t link_flags;
  uint64_t bpf_cookie;
};

std::string NameOf(const ModulePlan& module, std::optional<Pid> pid) {
  return module.name + (pid.has_value() ? " of PID " + std::to_string(Raw(*pid)) : "");
}

absl::Status AttachError(int error, const ModulePlan& module, std::optional<Pid> pid) {
  const std::string where = NameOf(module, pid);
  switch (error) {
    case ESRCH:
      return Fail(ExitCode::kNoTarget, "the process ended while probes were put into " + where);
    case EPERM:
    case EACCES:
      return Fail(ExitCode::kNotPermitted,
                  "the kernel does not permit probes in " + where + "; " + HowToGetRights());
    default:
      return Fail(ExitCode::kHostUnfit, "the kernel refused probes in " + where + ": " +
                                            ErrnoText(error) + "; 'proftrace doctor' says more");
  }
}

bool IsFatal(int error) {
  return error == ESRCH || error == ENOENT || error == EPERM || error == EACCES ||
         error == ENOMEM || error == EBADF || error == EMFILE || error == ENFILE;
}

// The arguments of CreateMultiLink(), beside the points.
struct MultiAttach {
  LinkGuard* guard = nullptr;
  int program_fd = -1;
  CookieTable* cookies = nullptr;
  const ModulePlan& module;
  std::optional<Pid> pid;
};

// The arguments of CreateTraceLink(), beside the points.
struct TraceAttach {
  int program_fd = -1;
  int addresses_fd = -1;
  const ModulePlan& module;
  Pid pid;
};

// Makes one link with all `points`. Returns the errno on failure.
int CreateMultiLink(const MultiAttach& attach, const std::vector<ProbePoint>& points,
                    LinkSet* links) {
  MultiLinkRequest request{attach.program_fd, attach.module.held->fd(), {}, {}, 0};
  for (const ProbePoint& point : points) {
    request.offsets.push_back(point.file_offset);
    request.cookies.push_back(point.cookie);
  }
  if (attach.cookies == nullptr) {
    if (attach.pid.has_value()) request.pid = Raw(*attach.pid);
    return attach.guard->Create(request, links);
  }
  std::shared_ptr<const CookieRoom> room = attach.cookies->Put(&request.cookies, attach.pid);
  if (room == nullptr) return ENOSPC;
  const int error = attach.guard->Create(request, links);
  if (error == 0) links->back().Keep(std::move(room));
  return error;
}

int CreatePerfLink(int program_fd, uint32_t pmu_type, const std::string& path,
                   const ProbePoint& point, std::optional<Pid> pid, LinkSet* links) {
  perf_event_attr event{};
  event.size = sizeof(event);
  event.type = pmu_type;
  event.config = 0;  // at entry of the instruction, not a return probe
  event.config1 = reinterpret_cast<uint64_t>(path.c_str());
  event.config2 = point.file_offset;
  // The kernel filters by the process's memory, so the leader's event fires for all of its threads.
  const pid_t target = pid.has_value() ? static_cast<pid_t>(Raw(*pid)) : -1;
  const long event_fd = syscall(SYS_perf_event_open, &event, target, pid.has_value() ? -1 : 0, -1,
                                PERF_FLAG_FD_CLOEXEC);
  if (event_fd < 0) return errno;
  UniqueFd owner(static_cast<int>(event_fd));
  PerfLinkAttributes attributes{};
  attributes.prog_fd = static_cast<uint32_t>(program_fd);
  attributes.target_fd = static_cast<uint32_t>(event_fd);
  attributes.attach_type = kAttachTypePerfEvent;
  attributes.bpf_cookie = point.cookie;
  const long link_fd = syscall(SYS_bpf, kBpfLinkCreate, &attributes, sizeof(attributes));
  if (link_fd < 0) return errno;
  links->emplace_back(UniqueFd(static_cast<int>(link_fd)));
  links->emplace_back(std::move(owner));
  return 0;
}

// Makes one link with all `points`. Returns the errno on failure.
using CreateLink = std::function<int(const std::vector<ProbePoint>& points, LinkSet* links)>;

// Finds the points that make the link fail, by halves.
void FindRefused(const CreateLink& create, const std::string& module,
                 const std::vector<ProbePoint>& points, AttachReport* report) {
  LinkSet links;  // dropped again: the whole set is linked once, when the refused points are known
  const int error = create(points, &links);
  if (error == 0 || IsFatal(error)) return;
  if (points.size() == 1) {
    report->refused.push_back(RefusedPoint{module, points[0].file_offset, error});
    return;
  }
  const auto middle = points.begin() + static_cast<std::ptrdiff_t>(points.size() / 2);
  links.clear();
  FindRefused(create, module, {points.begin(), middle}, report);
  FindRefused(create, module, {middle, points.end()}, report);
}

// Returns the points whose site has no refused point: a begin without its end would be worse than
// neither.
std::vector<ProbePoint> WithoutRefused(const ModulePlan& module, const AttachReport& report) {
  std::vector<bool> bad_site(65536, false);
  std::vector<uint64_t> bad_offsets;
  for (const RefusedPoint& refused : report.refused) {
    for (const ProbePoint& point : module.points) {
      if (refused.module != module.name || refused.file_offset != point.file_offset) continue;
      bad_offsets.push_back(point.file_offset);
      if (SiteOf(point) != 0) bad_site[SiteOf(point)] = true;
    }
  }
  std::vector<ProbePoint> points;
  for (const ProbePoint& point : module.points) {
    bool bad = bad_site[SiteOf(point)];
    for (const uint64_t offset : bad_offsets) bad = bad || offset == point.file_offset;
    if (!bad) points.push_back(point);
  }
  return points;
}

absl::StatusOr<LinkSet> AttachAtOnce(const CreateLink& create, const ModulePlan& module,
                                     std::optional<Pid> pid, AttachReport* report) {
  LinkSet links;
  int error = create(module.points, &links);
  size_t attached = module.points.size();
  if (error != 0 && !IsFatal(error)) {
    // Where the code is not the code that was analysed, refusals say nothing about single points.
    if (absl::Status status = CheckUnchanged(module, pid); !status.ok()) return status;
    FindRefused(create, module.name, module.points, report);
    const std::vector<ProbePoint> points = WithoutRefused(module, *report);
    attached = points.size();
    if (!points.empty() && points.size() < module.points.size()) {
      error = create(points, &links);
    }
  }
  if (error != 0) return AttachError(error, module, pid);
  report->points += static_cast<uint32_t>(attached);
  return links;
}

// Raises the limit of open descriptors by `more`, because each point takes two descriptors.
void RaiseDescriptorLimit(size_t more) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = limit.rlim_cur + more;
  limit.rlim_max = std::max(limit.rlim_max, wanted);
  limit.rlim_cur = wanted;
  setrlimit(RLIMIT_NOFILE, &limit);
}

absl::StatusOr<LinkSet> AttachPerf(int program_fd, const ModulePlan& module, std::optional<Pid> pid,
                                   AttachReport* report) {
  absl::StatusOr<uint32_t> pmu_type = UprobePmuType();
  if (!pmu_type.ok()) return pmu_type.status();
  RaiseDescriptorLimit(2 * module.points.size());
  std::vector<ProbePoint> points = module.points;
  const std::string path = module.held->path();
  LinkSet links;
  for (size_t i = 0; i < points.size(); ++i) {
    const int error = CreatePerfLink(program_fd, *pmu_type, path, points[i], pid, &links);
    if (error == 0) continue;
    if (IsFatal(error)) return AttachError(error, module, pid);
    if (absl::Status status = CheckUnchanged(module, pid); !status.ok()) return status;
    // Start again without the site of the refused point.
    report->refused.push_back(RefusedPoint{module.name, points[i].file_offset, error});
    points = WithoutRefused(module, *report);
    links.clear();
    i = static_cast<size_t>(-1);
  }
  if (points.empty() && !module.points.empty()) return AttachError(EINVAL, module, pid);
  report->points += static_cast<uint32_t>(points.size());
  return links;
}

// The objects that are kept as long as a trace event is open.
struct TraceNeeds {
  std::unique_ptr<ProbeAddresses> addresses;
  std::unique_ptr<TraceEvent> event;
};

// Makes one event with all `points`. Returns the errno on failure.
int CreateTraceLink(const TraceAttach& attach, const std::vector<ProbePoint>& points,
                    LinkSet* links) {
  auto needs = std::make_shared<TraceNeeds>();
  needs->addresses =
      ProbeAddresses::Put(attach.addresses_fd, attach.pid, attach.module.file, points);
  if (needs->addresses == nullptr) return ESRCH;
  needs->event = TraceEvent::Make(attach.module.held->fd(), points);
  if (needs->event == nullptr) return errno;
  UniqueFd opened;
  if (const int error = needs->event->Open(attach.pid, attach.program_fd, &opened); error != 0) {
    return error;
  }
  links->emplace_back(std::move(opened));
  links->back().Keep(std::move(needs));
  return 0;
}

}  // namespace

absl::Status CheckUnchanged(const ModulePlan& module, std::optional<Pid> pid) {
  if (module.points.empty() || module.held->IsUnchanged()) return absl::OkStatus();
  const std::string what =
      module.held->is_remote()
          ? " was changed after it was analysed, or its file system does not answer any more, so"
          : " was changed after it was analysed, so";
  return Fail(ExitCode::kHostUnfit,
              "the file of " + NameOf(module, pid) + what +
                  " it gets no probes; record it again when "
                  "nobody writes to the file, renames it or changes its mode");
}

absl::StatusOr<uint32_t> UprobePmuType() {
  const std::string text = ReadSmallFile("/sys/bus/event_source/devices/uprobe/type", 32);
  const unsigned long type = std::strtoul(text.c_str(), nullptr, 10);
  if (type == 0) {
    return Fail(ExitCode::kHostUnfit,
                "this kernel has no uprobes (no /sys/bus/event_source/devices/uprobe); it needs "
                "CONFIG_UPROBE_EVENTS");
  }
  return static_cast<uint32_t>(type);
}

absl::StatusOr<LinkSet> AttachModule(UprobeApi api, LinkGuard* guard, int program_fd,
                                     const ProbeTables& tables, const ModulePlan& module,
                                     std::optional<Pid> pid, AttachReport* report) {
  if (module.points.empty()) return LinkSet();
  switch (api) {
    case UprobeApi::kMulti: {
      const MultiAttach attach{guard, program_fd, tables.cookies.get(), module, pid};
      return AttachAtOnce(std::bind_front(CreateMultiLink, attach), module, pid, report);
    }
    case UprobeApi::kTrace: {
      if (!pid.has_value()) break;
      const TraceAttach attach{program_fd, tables.addresses_fd, module, *pid};
      return AttachAtOnce(std::bind_front(CreateTraceLink, attach), module, pid, report);
    }
    case UprobeApi::kPerf:
      return AttachPerf(program_fd, module, pid, report);
  }
  return Fail(ExitCode::kBug, "unknown uprobe interface");
}

}  // namespace proftrace
