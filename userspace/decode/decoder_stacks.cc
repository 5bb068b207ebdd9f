#include <span>
#include <string>
#include <vector>

#include "userspace/decode/decoder.h"
#include "userspace/model/python_stack.h"

namespace proftrace {

bool Decoder::TakeStack(const abi::pt_record& head, std::span<const std::byte> record) {
  if (head.kind != abi::PT_SCRIPT_STACK) return python_.OnRecord(record);
  const Process* process = FindProcess(head.pid, static_cast<int64_t>(head.time_ns));
  return scripts_.OnRecord(record, process == nullptr ? 0 : process->image);
}

bool Decoder::IsOfBackward(EventLabel label) const {
  return label < labels_.size() && labels_[label].scope == Scope::kBackwardFunction;
}

const Target* Decoder::TargetOf(Pid pid) const {
  for (const ProcessEntry& entry : metadata_.processes) {
    if (entry.target.pid == pid) return &entry.target;
  }
  return nullptr;
}

std::vector<std::string> Decoder::PathsOf(Pid pid) const {
  const Target* target = TargetOf(pid);
  return target == nullptr ? std::vector<std::string>() : target->python_paths;
}

SampleDecoder::Tables Decoder::TakeSamples() {
  return samples_.TakeTables([this](Pid pid) { return PathsOf(pid); });
}

PythonDecoder::Tables Decoder::TakeStacks() {
  PythonDecoder::Facts facts;
  facts.version_of = [&](Pid pid) {
    const Target* target = TargetOf(pid);
    return target == nullptr ? 0 : PythonVersionOf(target->python_version);
  };
  facts.paths_of = [&](Pid pid) { return PathsOf(pid); };
  facts.path_of_module = [&](const PythonModule& module, int64_t told_ns) {
    return metadata_.PathOfModule({module.pid, module.object, module.type}, told_ns);
  };
  return python_.TakeTables(facts);
}

}  // namespace proftrace
