// Many probes as one event of the kernel's tracing (tracefs, uprobe_events), for kernels without
// uprobe.multi: it goes away at once, where as many perf events of their own take minutes. Its
// probes have no cookies: the program knows them by their addresses (bpf/kernel/cookies.bpf.h).
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

// Whether events can be made here. What proftraces that are gone have left is taken away.
bool CanMakeTraceEvents();

// An event's definition; it goes with this. Nothing may have it open any more then.
class TraceEvent {
 public:
  ~TraceEvent();
  TraceEvent(const TraceEvent&) = delete;
  TraceEvent& operator=(const TraceEvent&) = delete;

  // Makes an event with a probe at each point of the file. null: errno says why not.
  static std::unique_ptr<TraceEvent> Make(int file_fd, const std::vector<ProbePoint>& points);
  // Opens a perf event of it for a process, which runs the program at each hit. Returns the errno
  // on failure; the kernel does not say which point it refuses.
  int Open(Pid pid, int program_fd, UniqueFd* event) const;

 private:
  TraceEvent(std::string name, uint64_t id) : name_(std::move(name)), id_(id) {}

  std::string name_;
  uint64_t id_;
};

// Entries of the map probe_addresses, for the hits of a process; they go with this.
class ProbeAddresses {
 public:
  ~ProbeAddresses();
  ProbeAddresses(const ProbeAddresses&) = delete;
  ProbeAddresses& operator=(const ProbeAddresses&) = delete;

  // Puts the addresses where the process has the points' file mapped. null: it has not, or the map
  // is full.
  static std::unique_ptr<ProbeAddresses> Put(int map_fd, Pid pid, const FileId& file,
                                             const std::vector<ProbePoint>& points);

 private:
  ProbeAddresses(int map_fd, Pid pid) : map_fd_(map_fd), pid_(pid) {}

  int map_fd_;
  Pid pid_;
  std::vector<uint64_t> addresses_;
};

}  // namespace proftrace
