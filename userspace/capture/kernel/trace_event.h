// Puts many probes into one event of the kernel's tracing (tracefs, uprobe_events), for kernels
// without uprobe.multi. Such an event is removed at once, whereas one perf event for each probe
// takes minutes. The event's probes have no cookies: the program knows them by their addresses
// (bpf/kernel/cookies.bpf.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "symbols/probe_plan.h"
#include "userspace/base/unique_fd.h"
#include "userspace/model/ids.h"

namespace proftrace {

// Whether events can be made on this host. Also removes the events of tracers that have ended.
bool CanMakeTraceEvents();

// An event's definition, which the destructor removes. By then no descriptor of it may be open.
class TraceEvent {
 public:
  ~TraceEvent();
  TraceEvent(const TraceEvent&) = delete;
  TraceEvent& operator=(const TraceEvent&) = delete;

  // Makes an event with a probe at each point of the file. Returns null on failure; errno says why.
  static std::unique_ptr<TraceEvent> Make(int file_fd, const std::vector<ProbePoint>& points);
  // Opens a perf event for this event and a process, which runs the program at each hit. Returns
  // the errno on failure; the kernel does not say which point it refuses.
  int Open(Pid pid, int program_fd, UniqueFd* event) const;

 private:
  TraceEvent(std::string name, uint64_t id) : name_(std::move(name)), id_(id) {}

  std::string name_;
  uint64_t id_;
};

// Entries of the map probe_addresses, for the hits of a process. The destructor removes them.
class ProbeAddresses {
 public:
  ~ProbeAddresses();
  ProbeAddresses(const ProbeAddresses&) = delete;
  ProbeAddresses& operator=(const ProbeAddresses&) = delete;

  // Puts the points' addresses in the process into the map. Returns null where the process does not
  // map the file, or the map is full.
  static std::unique_ptr<ProbeAddresses> Put(int map_fd, Pid pid, const FileId& file,
                                             const std::vector<ProbePoint>& points);

 private:
  ProbeAddresses(int map_fd, Pid pid) : map_fd_(map_fd), pid_(pid) {}

  int map_fd_;
  Pid pid_;
  std::vector<uint64_t> addresses_;
};

}  // namespace proftrace
