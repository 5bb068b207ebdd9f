#include "userspace/capture/names/script_collector.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "userspace/capture/targets/target_words.h"

namespace proftrace {
namespace {

// The most pairs of one process, as a job can make up as many as it likes.
constexpr size_t kMostPlaces = size_t{1} << 18;
constexpr uint8_t kMostTries = 3;

}  // namespace

abi::pt_script_layout ScriptCollector::Prepare(BpfPrograms* programs, Pid pid, uint32_t image,
                                               const std::shared_ptr<const ProbePlan>& plan,
                                               std::vector<Unsupported>* gaps) {
  if (!programs->wants_scripts()) return {};
  absl::StatusOr<ScriptReading> reading = absl::UnknownError("");
  {
    const std::lock_guard lock(mutex_);
    if (last_plan_.lock() == plan) reading = last_reading_;
  }
  if (!reading.ok()) reading = ReadScripts(pid, *plan);
  absl::Status status = reading.status();
  if (status.ok() && programs->reads_stacks()) {
    status = programs->AddScriptLayout(pid, reading->layout);
  }
  if (!status.ok()) {
    gaps->push_back({kScriptsFeature,
                     "PID " + std::to_string(Raw(pid)) + ": " + std::string(status.message())});
    return {};
  }
  const std::lock_guard lock(mutex_);
  last_plan_ = plan;
  last_reading_ = reading;
  processes_[Raw(pid)] = Process{*reading, image, {}};
  return reading->layout;
}

void ScriptCollector::Observe(std::span<const std::byte> record) {
  abi::pt_script_record script{};
  if (record.size() < PT_SCRIPT_HEAD_BYTES) return;
  std::memcpy(&script, record.data(), std::min(record.size(), sizeof(script)));
  const size_t frames = std::min<size_t>(
      script.count, (record.size() - PT_SCRIPT_HEAD_BYTES) / sizeof(abi::pt_script_frame));
  const Pid pid{script.head.pid};
  std::vector<std::pair<TargetReader::Question, ScriptKey>> questions;
  {
    const std::lock_guard lock(mutex_);
    const auto it = processes_.find(script.head.pid);
    if (it == processes_.end()) return;
    Process& process = it->second;
    for (size_t i = 0; i < std::min<size_t>(frames, PT_SCRIPT_MOST_FRAMES); ++i) {
      const Place place(script.frames[i].code, script.frames[i].node);
      const auto known = process.places.find(place);
      if (known == process.places.end() && process.places.size() >= kMostPlaces) {
        ++not_read_;
        continue;
      }
      State& state = process.places[place];
      if (state.is_settled) continue;
      ++state.tries;
      state.is_settled = true;
      questions.emplace_back(
          TargetReader::Question{pid, process.image,
                                 AskScriptNames(process.reading, place.first, place.second)},
          ScriptKey{pid, process.image, place.first, place.second});
    }
  }
  // No lock is held here, because an answer may come at once.
  for (auto& [question, key] : questions) {
    reader_->Ask(std::move(question),
                 [this, key = key](std::string_view answer) { OnAnswer(key, answer); });
  }
}

void ScriptCollector::OnAnswer(const ScriptKey& key, std::string_view answer) {
  const std::optional<ScriptNames> names = ScriptIn(answer);
  if (!names) {
    const std::lock_guard lock(mutex_);
    const auto process = processes_.find(Raw(key.pid));
    const bool is_there = process != processes_.end() && process->second.image == key.image;
    State* state = is_there ? &process->second.places[{key.code, key.node}] : nullptr;
    if (state != nullptr && state->tries < kMostTries) {
      state->is_settled = false;
    } else {
      ++not_read_;
    }
    return;
  }
  sink_->AddMetadata([&](MetadataWriter& writer) {
    writer.AddScript(key, ScriptText{names->text, names->prefix});
  });
}

void ScriptCollector::Forget(Pid pid) {
  const std::lock_guard lock(mutex_);
  processes_.erase(Raw(pid));
}

uint64_t ScriptCollector::not_read() const {
  const std::lock_guard lock(mutex_);
  return not_read_;
}

}  // namespace proftrace
