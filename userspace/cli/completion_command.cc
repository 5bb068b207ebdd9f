#include <memory>
#include <string>

#include "userspace/base/exit_status.h"
#include "userspace/cli/commands.h"
#include "userspace/cli/completion.h"
#include "userspace/cli/option_kinds.h"
#include "userspace/cli/say.h"

namespace proftrace {
namespace {

enum class Shell : uint8_t { kBash, kZsh, kFish };

std::string CompletionOf(const CLI::App& app, Shell shell) {
  switch (shell) {
    case Shell::kBash:
      return BashCompletion(app);
    case Shell::kZsh:
      return ZshCompletion(app);
    case Shell::kFish:
      return FishCompletion(app);
  }
  return "";
}

}  // namespace

void AddCompletionCommand(CLI::App& app, Action* action) {
  auto name = std::make_shared<std::string>();
  CLI::App* completion =
      app.add_subcommand("completion",
                         "Print a script that completes commands, options and PIDs in a shell.\n"
                         "Example: source <(proftrace completion bash)");
  completion->add_option("SHELL", *name, "bash, zsh or fish")->required();
  completion->callback([&app, name, action] {
    *action = [&app, name]() -> absl::Status {
      constexpr std::array<Choice<Shell>, 3> kShells = {
          {{"bash", Shell::kBash}, {"zsh", Shell::kZsh}, {"fish", Shell::kFish}}};
      std::array<std::string_view, kShells.size()> names;
      for (size_t i = 0; i < kShells.size(); ++i) {
        names[i] = kShells[i].name;
        if (kShells[i].name != *name) continue;
        Print("%s", CompletionOf(app, kShells[i].value).c_str());
        return absl::OkStatus();
      }
      return Fail(ExitCode::kUsage, "completion: " + NoneOf(*name, names));
    };
  });
}

}  // namespace proftrace
