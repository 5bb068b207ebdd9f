// What the classes of a ProcessSet share. Each part has a lock of its own, or none because it never
// changes: its header says which. A lock is held only within the part's own methods; where one of
// these takes the lock of another part, its header says so.
#pragma once

#include <atomic>

#include "symbols/plan/planner.h"
#include "userspace/capture/kernel/link_closer.h"
#include "userspace/capture/names/schema_collector.h"
#include "userspace/capture/plans/plan_registry.h"
#include "userspace/capture/processes/gap_list.h"
#include "userspace/capture/processes/jump_attacher.h"
#include "userspace/capture/processes/known_processes.h"
#include "userspace/capture/processes/probe_attacher.h"
#include "userspace/capture/processes/process_parts.h"

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
