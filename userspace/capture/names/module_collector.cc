#include "userspace/capture/names/module_collector.h"

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "bpf/abi/python_records.h"
#include "userspace/capture/targets/module_finder.h"

namespace proftrace {
namespace {

// How many modules may wait to be looked for, of all processes and of one. A job can make up as
// many as it likes.
constexpr size_t kMostModules = 1u << 16;
constexpr size_t kMostModulesOfOne = 1u << 14;
// How long Finish() waits for the modules that wait at the end.
constexpr int64_t kFinishNs = 5'000'000'000;

}  // namespace

ModuleCollector::ModuleCollector(CaptureSink* sink)
    : sink_(sink),
      reader_("proftrace-model", "finds modules in their models",
              [search = std::make_shared<ModuleFinder>()](Pid pid, std::string_view question) {
                return AnswerForModule(search.get(), pid, question);
              }) {}

ModuleCollector::~ModuleCollector() { Finish(); }

void ModuleCollector::SetLayout(Pid pid, const PythonLayout& layout) {
  {
    const std::lock_guard lock(mutex_);
    Process& process = processes_[Raw(pid)];
    process.layout = layout;
    process.program = ++last_program_;
  }
  reader_.Start();
}

void ModuleCollector::Observe(std::span<const std::byte> record) {
  abi::pt_pair_record pair{};
  std::memcpy(&pair.head, record.data(), sizeof(pair.head));
  if (pair.head.kind != abi::PT_PYTHON_MODULE || record.size() < sizeof(pair)) return;
  std::memcpy(&pair, record.data(), sizeof(pair));
  const Pid pid{pair.head.pid};
  const SeenModule seen{pair.handle, pair.object, static_cast<int64_t>(pair.head.time_ns)};
  TargetReader::Question question{pid, 0, ""};
  {
    const std::lock_guard lock(mutex_);
    const auto process = processes_.find(pair.head.pid);
    if (process == processes_.end()) return;
    if (process->second.waiting >= kMostModulesOfOne || waiting_ >= kMostModules) {
      ++not_read_;
      return;
    }
    ++process->second.waiting;
    ++waiting_;
    question.image = process->second.program;
    question.input = AskModule(process->second.program, process->second.layout, seen);
  }
  reader_.Ask(std::move(question), [this, pid](std::string_view answer) { OnAnswer(pid, answer); });
}

void ModuleCollector::OnAnswer(Pid pid, std::string_view answer) {
  {
    const std::lock_guard lock(mutex_);
    --processes_[Raw(pid)].waiting;
    --waiting_;
    if (answer.empty()) ++not_read_;
  }
  const std::vector<FoundModule> found = ModulesOf(answer);
  if (found.empty()) return;
  sink_->AddMetadata([&](MetadataWriter& writer) {
    for (const FoundModule& module : found) {
      writer.AddModulePath({pid, module.seen.object, module.seen.type}, module.seen.told_ns,
                           module.path);
    }
  });
}

void ModuleCollector::Finish() { reader_.Finish(kFinishNs); }

uint64_t ModuleCollector::not_read() const {
  const std::lock_guard lock(mutex_);
  return not_read_;
}

}  // namespace proftrace
