#include "userspace/capture/processes/shared_parts.h"

#include <utility>

namespace proftrace {
namespace {

PlanOptions WhileOthersWait(PlanOptions options, bool reads_inputs, const std::atomic<bool>* stop) {
  // Planning is limited, because the other processes wait for it, and the end of the recording as
  // well.
  options.ShareWithOthers();
  options.stop = stop;
  // Later plans have no input probes where these cannot be read, so that they need not be taken out
  // again.
  options.record_shapes &= reads_inputs;
  return options;
}

}  // namespace

SharedParts::SharedParts(const ProcessParts& parts, const JumpOptions& jump_options,
                         PlanOptions plan_options)
    : given(parts),
      patch(jump_options.recorder),
      planning(WhileOthersWait(std::move(plan_options), parts.programs->reads_inputs(), &stop)),
      schemas(parts.sink),
      plans(parts.programs, parts.sink),
      known(parts.reader, &gaps),
      probes(parts.programs, &gaps, /*beside_jumps=*/jump_options.recorder != nullptr),
      jumps(jump_options, parts.programs->is_loaded(), &gaps) {}

}  // namespace proftrace
