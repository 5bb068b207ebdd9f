// The side with rights of a worker that reads a target: it opens what belongs to that target, and
// nothing else.
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

// The answer to a question that is not about the target.
WorkerAnswer RefusalOfEntries();

class TargetAnswers {
 public:
  // `facts`: null where the worker asks for none. Must outlive this.
  TargetAnswers(Pid pid, KeptFacts* facts) : pid_(pid), facts_(facts) {}

  // Answers one question, for RunWorker().
  WorkerAnswer Answer(std::string_view question);

  // Returns the file of that state whose facts were asked for; null: it is none of those. It was
  // opened here, as one that the target has mapped.
  std::shared_ptr<const HeldFile> Held(const FileState& state) const;

 private:
  // Whether it is an entry of the target, or of one of its threads, that workers read.
  bool IsOfTarget(std::string_view path) const;
  bool IsOfFile(const std::string& path);
  // Whether nobody but this machine's kernel is asked for what is mapped there.
  bool IsLocalMapping(std::string_view range);
  WorkerAnswer Open(const std::string& path);
  WorkerAnswer ReadText(std::string_view question) const;
  WorkerAnswer Stat(const std::string& path);
  WorkerAnswer OpenMapped(std::string_view question);
  WorkerAnswer OpenBelow(std::string_view question);
  WorkerAnswer Read(EntryQuestion kind, std::string_view question) const;
  // Looks at what the target has mapped, if that was not done before or `again`.
  absl::Status LookAtFiles(bool again);
  absl::StatusOr<OpenedFile> OpenAgain(const FileQuestion& asked);
  WorkerAnswer FactsOf(std::string_view question, bool may_analyse);
  std::shared_ptr<const HeldFile> Hold(const FileState& state);
  WorkerAnswer Give(const absl::StatusOr<OpenedFile>& opened, const FileQuestion& question);

  Pid pid_;
  KeptFacts* facts_;
  std::vector<MappedFile> files_;  // that the target had mapped when that was last looked at
  std::map<FileState, FileQuestion> places_;  // of the files that it has opened for the worker
  std::map<FileState, std::shared_ptr<const HeldFile>> remote_;  // that it reads for the worker
  std::map<FileState, std::shared_ptr<const HeldFile>> held_;
};

}  // namespace proftrace
