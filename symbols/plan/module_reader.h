// Reads those files of a process that contribute to its probe plan.
#pragma once

#include <absl/status/status.h>
#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "symbols/plan/planner.h"
#include "symbols/probe_plan.h"
#include "symbols/process/held_file.h"
#include "symbols/process/process_maps.h"
#include "symbols/torch/module_analysis.h"
#include "userspace/model/ids.h"
#include "userspace/sandbox/worker.h"

namespace proftrace {

// One file of the process that contributes to the plan.
struct Module {
  const MappedFile* mapped = nullptr;
  std::shared_ptr<const HeldFile> held;
  std::string mapped_path;
  std::string build_id;
  std::vector<Elf64_Phdr> segments;
  uint64_t load_bias = 0;   // address in the target less address in the file
  MemoryRange zeroed_data;  // its .bss in the target
  ModuleFacts facts;
  bool from_cache = false;
};

// The part of a path behind its last slash.
std::string FileName(const std::string& path);

size_t CountOperators(const ModuleFacts& facts);

// Opens the files of one process and gathers their facts, in a worker.
class ModuleReader {
 public:
  ModuleReader(Pid pid, const PlanOptions& options, WorkerChannel* channel);

  // Returns the files that contribute; .symtab counts where no dynamic symbol tells of an operator.
  std::vector<Module> ReadAll(const std::vector<MappedFile>& files);
  // Whether there was no time for more.
  bool is_cut() const { return is_cut_; }
  // Adds what the plan lacks for that reason, and what of torch's files could not be read.
  void AddGaps(ProbePlan* plan) const;
  // What could not be read, "libtorch_cpu.so: bad section headers"; empty: all could be read.
  const std::string& unread() const { return unread_; }
  // Why a library could not be opened that others decide about (remote_file.h), if possible one of
  // torch's; ok: all could be opened.
  const absl::Status& unopened() const { return unopened_; }

 private:
  // `full`: look into .symtab too.
  std::optional<Module> Read(const MappedFile& mapped, bool full);

  Pid pid_;
  WorkerChannel* channel_;
  int64_t deadline_ns_;
  bool has_collector_;  // interpreters contribute
  // Notes an unread file if it is named as torch's: others may be anything.
  void NoteUnread(const MappedFile& mapped, const std::string& reason);
  // Notes that a file is lost that contributes.
  void NoteLost(const std::string& name, const std::string& reason);

  void NoteUnopened(const MappedFile& mapped, const absl::Status& status);

  bool is_cut_ = false;
  absl::Status unopened_;
  bool is_torch_unopened_ = false;
  std::string unread_;
  std::set<std::pair<uint64_t, uint64_t>> read_;  // device and inode; a file may have two names
  std::vector<const MappedFile*> left_;           // not read
};

}  // namespace proftrace
