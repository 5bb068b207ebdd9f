// Reads the files of a process that contribute to its probe plan.
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
  MemoryRange zeroed_data;  // the address of its .bss in the target
  ModuleFacts facts;
  bool from_cache = false;
};

// Returns the part of a path behind its last slash.
std::string FileName(const std::string& path);

size_t CountOperators(const ModuleFacts& facts);

// Opens the files of one process and gathers their facts, in a worker.
class ModuleReader {
 public:
  ModuleReader(Pid pid, const PlanOptions& options, WorkerChannel* channel);

  // Returns the files that contribute. Looks into .symtab only where no file has an operator among
  // its dynamic symbols.
  std::vector<Module> ReadAll(const std::vector<MappedFile>& files);
  // Whether reading was cut short for want of time.
  bool is_cut() const { return is_cut_; }
  // Adds gaps for files that were left out for that reason, and for files of torch that could not
  // be read or opened.
  void AddGaps(ProbePlan* plan) const;
  // The first file that could not be read, and why: "libtorch_cpu.so: bad section headers". Empty:
  // all could be read.
  const std::string& unread() const { return unread_; }
  // Why a library could not be opened, one of torch's if there is such a one; ok: all could be
  // opened.
  const absl::Status& unopened() const { return unopened_; }

 private:
  // A file that may contribute.
  struct Candidate {
    Module module;
    absl::StatusOr<std::optional<ModuleFacts>> facts;  // nullopt: they are not known
  };

  // Looks at one file; nullopt: it does not contribute. `full`: looks into .symtab too.
  std::optional<Candidate> Look(const MappedFile& mapped, bool full);
  // Has the candidates analysed whose facts are not known.
  void Prepare(const std::vector<Candidate>& candidates);
  // Returns the module with its facts; nullopt: they could not be found.
  std::optional<Module> Finish(Candidate candidate);

  Pid pid_;
  WorkerChannel* channel_;
  int64_t deadline_ns_;
  bool has_collector_;  // whether interpreters contribute, for their garbage collector
  // Notes an unread file if its name has "torch" in it: any other file may have nothing to do with
  // torch.
  void NoteUnread(const MappedFile& mapped, const std::string& reason);
  // Notes that a file which contributes could not be analysed.
  void NoteLost(const std::string& name, const std::string& reason);

  void NoteUnopened(const MappedFile& mapped, const absl::Status& status);

  bool is_cut_ = false;
  absl::Status unopened_;
  bool is_torch_unopened_ = false;
  std::string unread_;
  std::set<std::pair<uint64_t, uint64_t>> read_;  // device and inode; a file may have two names
  std::vector<const MappedFile*> left_;           // files that were left out for want of time
};

}  // namespace proftrace
