#include "userspace/cli/clock_options.h"

#include <algorithm>
#include <array>

#include "userspace/cli/option_kinds.h"

namespace proftrace {

void AddClockOptions(CLI::App* command, MergedClockOptions* options) {
  constexpr std::array kModes = {ClockMode::kAuto, ClockMode::kCollectives, ClockMode::kRealtime,
                                 ClockMode::kNone};
  std::array<Choice<ClockMode>, kModes.size()> modes;
  std::transform(kModes.begin(), kModes.end(), modes.begin(), [](ClockMode mode) {
    return Choice<ClockMode>{NameOf(mode), mode};
  });
  AddChoice(command, "--clock", &options->mode, modes,
            "what puts the hosts on one clock. collectives: what ranks did together, or not at "
            "all; realtime: their wall clocks as they are; none: each begins at the beginning; "
            "auto: collectives where they bind, and what they do not is marked");
  command
      ->add_option("--reference", options->reference,
                   "whose clock the others are put on; without it the one that shares the most")
      ->type_name("HOST");
}

}  // namespace proftrace
