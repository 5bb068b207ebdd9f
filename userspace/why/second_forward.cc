// Finds that activation checkpointing (torch.utils.checkpoint) runs the forward pass a second time:
// its operators are rows like all others, and nothing in them tells why they are called.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/base/text.h"
#include "userspace/why/rules.h"
#include "userspace/why/sample_looks.h"

namespace proftrace {
namespace {

constexpr std::string_view kCheckpoint = "torch/utils/checkpoint.py";
constexpr std::string_view kAutograd = "torch/autograd/__init__.py";
// A second forward pass with a smaller part of the samples is not worth a sentence.
constexpr int64_t kLeastPercent = 5;

// Returns whether the stack (the innermost frame first) is in a forward pass that a backward pass
// runs. Reentrant checkpoints run it in backward(), which also calls the inner backward pass; the
// others run it in a function that saved tensors are unpacked by.
bool IsSecondForward(const Timeline& timeline, const std::vector<const SampleFrame*>& frames) {
  for (size_t i = 0; i < frames.size(); ++i) {
    const SampleFunction& function = timeline.sample_function(*frames[i]);
    if (!Contains(function.file, kCheckpoint)) continue;
    if (function.name == "recompute_fn" || function.name == "unpack_hook") return true;
    if (function.name != "backward") continue;
    return i > 0 && !Contains(timeline.sample_function(*frames[i - 1]).file, kAutograd);
  }
  return false;
}

}  // namespace

void AddSecondForward(const Case& job, Finding* finding) {
  int64_t all = 0;
  int64_t second = 0;
  ForEachLook(job, TimesOf(job, StepPart::kOperators), [&](const Sample& sample) {
    ++all;
    const std::vector<const SampleFrame*> frames = PythonFramesOf(job.timeline, sample.frame);
    if (IsSecondForward(job.timeline, frames)) ++second;
  });
  if (all < kFewestSamples || 100 * second < kLeastPercent * all) return;
  finding->evidence.push_back(PercentText(second, all) +
                              " of the samples there are in the forward pass that "
                              "torch.utils.checkpoint runs a second time "
                              "(activation checkpointing), which takes time to spare memory.");
}

}  // namespace proftrace
