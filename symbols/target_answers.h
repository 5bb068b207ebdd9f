// The side with rights of a worker that reads a target: it opens what belongs to that target, and
// nothing else.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "symbols/file_facts.h"
#include "symbols/held_file.h"
#include "symbols/process_maps.h"
#include "userspace/model/ids.h"
#include "userspace/sandbox/worker.h"

namespace proftrace {

// Whether an answer of TargetAnswers is that the question is not about its target; and that one.
bool IsRefusal(const WorkerAnswer& answer);
WorkerAnswer RefusalOfEntries();

class TargetAnswers {
 public:
  // `facts`: null where the worker asks for none. Must outlive this.
  TargetAnswers(Pid pid, KeptFacts* facts) : pid_(pid), facts_(facts) {}

  // For RunWorker().
  WorkerAnswer Answer(std::string_view question);

  // The file of that state whose facts were asked for; null: it is none of those. It was opened
  // here, as one that the target has mapped.
  std::shared_ptr<const HeldFile> Held(const FileState& state) const;

 private:
  // Whether it is an entry of the target, or of one of its threads, that workers read.
  bool IsOfTarget(std::string_view path) const;
  bool IsOfFile(const std::string& path);
  WorkerAnswer Open(const std::string& path);
  WorkerAnswer ReadText(std::string_view question) const;
  WorkerAnswer Stat(const std::string& path) const;
  WorkerAnswer OpenBelow(const std::string& path);
  WorkerAnswer FactsOf(std::string_view question, bool may_analyse);
  std::shared_ptr<const HeldFile> Hold(const FileState& state);
  void Note(const UniqueFd& fd, const std::string& path, bool is_below_root);

  Pid pid_;
  KeptFacts* facts_;
  struct Place {
    std::string path;
    bool is_below_root = false;
  };
  std::map<FileState, Place> places_;  // of the files that it has opened for the worker
  std::map<FileState, std::shared_ptr<const HeldFile>> held_;
};

}  // namespace proftrace
