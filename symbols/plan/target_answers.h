// Answers the questions of a worker that reads a target, in the process with rights. Opens files
// and entries of /proc that belong to that target, and nothing else.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "symbols/plan/file_facts.h"
#include "symbols/process/asked_files.h"
#include "symbols/process/entry_questions.h"
#include "symbols/process/held_file.h"
#include "symbols/process/process_maps.h"
#include "userspace/model/ids.h"
#include "userspace/sandbox/worker.h"

namespace proftrace {

// Returns the answer to a question that is not about the target.
WorkerAnswer RefusalOfEntries();

class TargetAnswers {
 public:
  // `facts`: null where the worker asks for no facts. Must outlive this object.
  TargetAnswers(Pid pid, KeptFacts* facts) : pid_(pid), facts_(facts) {}

  // Answers one question, for RunWorker().
  WorkerAnswer Answer(std::string_view question);

  // Returns the file with that state, opened by this process as one that the target has mapped;
  // null: the worker did not ask for the facts of such a file.
  std::shared_ptr<const HeldFile> Held(const FileState& state) const;

 private:
  // Whether `path` is an entry of the target's /proc folder, or of one of its threads, that workers
  // may read.
  bool IsOfTarget(std::string_view path) const;
  bool IsOfFile(const std::string& path);
  // Whether the file that is mapped at `range` lies on a file system of this machine's kernel, so
  // that looking at it waits for no program or other machine.
  bool IsLocalMapping(std::string_view range);
  WorkerAnswer Open(const std::string& path);
  WorkerAnswer ReadText(std::string_view question) const;
  WorkerAnswer Stat(const std::string& path);
  WorkerAnswer OpenMapped(std::string_view question);
  WorkerAnswer OpenBelow(std::string_view question);
  WorkerAnswer Read(EntryQuestion kind, std::string_view question) const;
  // Reads which files the target has mapped, if that was not done before or where `again`.
  absl::Status LookAtFiles(bool again);
  absl::StatusOr<OpenedFile> OpenAgain(const FileQuestion& asked);
  WorkerAnswer FactsOf(std::string_view question, bool may_analyse);
  WorkerAnswer Prepare(std::string_view question);
  std::shared_ptr<const HeldFile> Hold(const FileState& state);
  WorkerAnswer Give(const absl::StatusOr<OpenedFile>& opened, const FileQuestion& question);

  Pid pid_;
  KeptFacts* facts_;
  // The files that the target had mapped when LookAtFiles() last read them
  std::vector<MappedFile> files_;
  // The questions by which files were opened for the worker
  std::map<FileState, FileQuestion> places_;
  // Files that this process reads for the worker
  std::map<FileState, std::shared_ptr<const HeldFile>> remote_;
  std::map<FileState, std::shared_ptr<const HeldFile>> held_;
};

}  // namespace proftrace
