#include "userspace/capture/kernel/code_copies.h"

#include <string>
#include <string_view>

#include "symbols/process/cache_bytes.h"
#include "symbols/python/sampled_frames.h"

namespace proftrace {
namespace {

// Runs in the worker.
std::string ReadCopy(Pid pid, std::string_view question) {
  CacheReader in(question);
  abi::pt_python_layout layout{};
  const bool is_layout = TakePlain(in.Text(), &layout);
  const uint64_t code = in.Number<uint64_t>();
  const uint32_t copy = in.Number<uint32_t>();
  if (!is_layout || !in.ok()) return "";
  const auto distance = ReadDistanceOfCopy(ProcessMemory(pid), layout, code, copy);
  if (!distance) return "";
  CacheWriter out;
  out.Number(*distance);
  return out.Take();
}

}  // namespace

std::optional<uint32_t> ReadDistanceOfCopy(const TargetMemory& memory,
                                           const abi::pt_python_layout& layout, uint64_t code,
                                           uint32_t copy) {
  if (copy == 0) return 0;
  if (layout.code_copies == 0) return std::nullopt;
  const auto begin = BeginOfCopy(memory, layout, code, copy);
  if (!begin) return std::nullopt;
  return static_cast<uint32_t>((*begin - code - layout.code_instructions) >> 1U);
}

CodeCopies::CodeCopies() : reader_("proftrace-copy", "reads copies of Python's code", ReadCopy) {}

void CodeCopies::SetLayout(Pid pid, const abi::pt_python_layout& layout) {
  const std::lock_guard lock(mutex_);
  layouts_[Raw(pid)] = layout;
}

void CodeCopies::Forget(Pid pid) {
  const std::lock_guard lock(mutex_);
  layouts_.erase(Raw(pid));
}

std::optional<uint32_t> CodeCopies::DistanceOf(Pid pid, uint64_t code, uint32_t copy) {
  if (copy == 0) return 0;
  CacheWriter question;
  {
    const std::lock_guard lock(mutex_);
    const auto layout = layouts_.find(Raw(pid));
    if (layout == layouts_.end()) return std::nullopt;
    question.Text(BytesOfPlain(layout->second));
  }
  question.Number(code);
  question.Number(copy);
  const std::string answer = reader_.AskNow({pid, 0, question.Take()});
  CacheReader in(answer);
  const auto distance = in.Number<uint32_t>();
  return in.ok() && in.at_end() ? std::optional(distance) : std::nullopt;
}

}  // namespace proftrace
