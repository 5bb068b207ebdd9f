// What the classes of a ProcessSet share. Each part has a lock of its own, or none because it never
// changes: its header says which. A lock is held only within the part's own methods; where one of
// these takes the lock of another part, its header says so.
#pragma once

#include <atomic>

#include "symbols/plan/planner.h"
#include "userspace/capture/gap_list.h"
#include "userspace/capture/jump_attacher.h"
#include "userspace/capture/known_processes.h"
#include "userspace/capture/link_closer.h"
#include "userspace/capture/plan_registry.h"
#include "userspace/capture/probe_attacher.h"
#include "userspace/capture/process_parts.h"
#include "userspace/capture/schema_collector.h"

namespace proftrace {

struct SharedParts {
  SharedParts(const ProcessParts& parts, const JumpOptions& jump_options, PlanOptions plan_options);
  SharedParts(const SharedParts&) = delete;
  SharedParts& operator=(const SharedParts&) = delete;

  const ProcessParts given;
  PatchRecorder* const patch;      // null: no process has jumps
  std::atomic<bool> stop = false;  // true ends the follower, and its plans that are being made
  const PlanOptions planning;      // how plans are made while other processes wait for them
  SchemaCollector schemas;
  LinkCloser closer;
  PlanRegistry plans;
  GapList gaps;
  KnownProcesses known;
  ProbeAttacher probes;
  JumpAttacher jumps;
};

}  // namespace proftrace
