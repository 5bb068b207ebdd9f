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
            "how hosts are put on one clock. collectives: by the collectives that ranks took part "
            "in together, and an error where these do not suffice; realtime: by their wall clocks "
            "as they are; none: the first event of each input is at time 0; FILE: by a JSON "
            "document that states offsets of their wall clocks; auto: by collectives, and inputs "
            "that these do not connect are placed by their wall clocks and marked as not aligned")
      ->default_str(std::string(NameOf(ClockMode::kAuto)));
  command
      ->add_option("--reference", options->reference,
                   "the host whose clock the others are put on; by default the host that has the "
                   "most collectives in common with others")
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
