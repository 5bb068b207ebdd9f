#include "userspace/cli/clock_options.h"

#include <absl/status/statusor.h>
#include <sys/stat.h>

#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "userspace/base/exit_status.h"
#include "userspace/base/nearest_word.h"
#include "userspace/cli/option_kinds.h"
#include "userspace/fleet_sources/byte_source.h"

namespace proftrace {
namespace {

constexpr std::array kClockModes = {ClockMode::kAuto, ClockMode::kCollectives, ClockMode::kRealtime,
                                    ClockMode::kNone};

absl::StatusOr<ClockChoice> ParseClock(const std::string& text) {
  std::vector<std::string_view> names;
  for (const ClockMode mode : kClockModes) {
    if (text == NameOf(mode)) return ClockChoice{mode, ""};
    names.push_back(NameOf(mode));
  }
  struct stat facts {};
  if (stat(text.c_str(), &facts) != 0) {
    return Fail(ExitCode::kUsage, NoneOf(text, names) + ", and no file either");
  }
  if (!S_ISREG(facts.st_mode)) {
    return Fail(ExitCode::kUsage, "'" + text + "' is no file of clocks");
  }
  return ClockChoice{ClockMode::kGiven, text};
}

}  // namespace

void AddClockOptions(CLI::App* command, ClockChoice* choice, MergedClockOptions* options) {
  AddParsed(command, "--clock", "auto|collectives|realtime|none|FILE", choice, ParseClock,
            "what puts the hosts on one clock. collectives: what ranks did together, or not at "
            "all; realtime: their wall clocks as they are; none: each begins at the beginning; "
            "FILE: a JSON document of offsets of their wall clocks; auto: collectives where they "
            "bind, and what they do not is marked")
      ->default_str(std::string(NameOf(ClockMode::kAuto)));
  command
      ->add_option("--reference", options->reference,
                   "whose clock the others are put on; without it the one that shares the most")
      ->type_name("HOST");
}

absl::Status ReadClock(const ClockChoice& choice, MergedClockOptions* options) {
  options->mode = choice.mode;
  if (choice.mode != ClockMode::kGiven) return absl::OkStatus();
  constexpr size_t kMostBytes = size_t{64} << 20;
  options->given_path = choice.path;
  const absl::StatusOr<std::string> text = ReadText(choice.path, kMostBytes);
  if (!text.ok()) return text.status();
  absl::StatusOr<std::vector<GivenClock>> given = ReadGivenClocks(*text, choice.path);
  if (!given.ok()) return given.status();
  options->given = *std::move(given);
  return absl::OkStatus();
}

}  // namespace proftrace
