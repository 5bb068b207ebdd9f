#include "userspace/cli/completion.h"

#include <cstdint>
#include <string_view>
#include <vector>

#include "exporters/formats.h"
#include "exporters/text/table.h"
#include "userspace/aggregate/stack_weights.h"
#include "userspace/cli/option_help.h"
#include "userspace/cli/record_arguments.h"

namespace proftrace {
namespace {

// The command whose arguments are names of shells, which the type of no option tells.
constexpr std::string_view kOwnCommand = "completion";

// The kinds of values that an option takes.
enum class Values : uint8_t {
  kNone,   // the option is a flag
  kFiles,  // names of files, which the shell itself completes
  kWords,  // one of a few words
  kList,   // a list of such words, with commas between them
  kPids,   // the PID of a process with PyTorch
  kText,   // free text, for which nothing can be proposed
};

struct Proposals {
  Values values = Values::kNone;
  std::string words;  // with spaces between
};

std::string Joined(const std::vector<std::string>& words, std::string_view between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : std::string(between)) + word;
  return text;
}

std::string Replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// Returns option names with their dashes.
std::vector<std::string> NamesOf(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

std::string FormatWords(bool with_none) {
  std::string words = with_none ? "none" : "";
  for (const Format& format : Formats()) words += " " + std::string(format.name);
  return words.substr(words.starts_with(' ') ? 1 : 0);
}

Proposals ProposalsOf(const CLI::App& command, const CLI::Option& option) {
  const std::string value = option.get_type_name();
  const std::string name = NamesOf(option).back();
  if (option.get_items_expected_max() == 0) return {};
  if (!option.get_snames().empty() && option.get_snames().front() == "p")
    return {Values::kPids, ""};
  for (const std::string_view of_files :
       {"--output", "--diff", "--perfetto-ui", "--speedscope-ui"}) {
    if (name == of_files) return {Values::kFiles, ""};
  }
  if (value.find('|') != std::string::npos) return {Values::kWords, Replaced(value, "|", " ")};
  if (name == "--activities") {
    return {Values::kList, Joined({std::begin(kActivityWords), std::end(kActivityWords)}, " ")};
  }
  if (name == "--format") return {Values::kList, FormatWords(command.get_name() == "record")};
  if (name == "--sort-by") return {Values::kWords, Joined(TableSortKeys(), " ")};
  if (name == "--metric") return {Values::kWords, Replaced(StackWeightNames(), ", ", " ")};
  return {Values::kText, ""};
}

// Returns the options that --help lists.
std::vector<const CLI::Option*> OptionsOf(const CLI::App& command) {
  return command.get_options([](const CLI::Option* option) {
    return !option->get_positional() && !option->get_group().empty();
  });
}

std::vector<const CLI::App*> CommandsOf(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); });
}

// Returns the commands that take options. A group is replaced by its commands.
std::vector<const CLI::App*> AllCommandsOf(const CLI::App& app) {
  std::vector<const CLI::App*> commands;
  for (const CLI::App* command : CommandsOf(app)) {
    const std::vector<const CLI::App*> inner = CommandsOf(*command);
    if (inner.empty()) commands.push_back(command);
    commands.insert(commands.end(), inner.begin(), inner.end());
  }
  return commands;
}

std::vector<const CLI::App*> GroupsOfCommands(const CLI::App& app) {
  std::vector<const CLI::App*> groups = CommandsOf(app);
  std::erase_if(groups, [](const CLI::App* group) { return CommandsOf(*group).empty(); });
  return groups;
}

// Returns the first clause of a description.
std::string About(const std::string& text) { return text.substr(0, text.find_first_of(".;:(\n")); }

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : CommandsOf(app)) names.push_back(command->get_name());
  if (app.get_parent() == nullptr) names.emplace_back("help");
  return names;
}

std::string Single(const std::string& text) { return "'" + Replaced(text, "'", "'\\''") + "'"; }

std::string BashOption(const CLI::App& command, const CLI::Option& option) {
  const Proposals proposals = ProposalsOf(command, option);
  const std::string head = "        " + Joined(NamesOf(option), "|") + ") ";
  switch (proposals.values) {
    case Values::kNone:
      return "";
    case Values::kFiles:
      return head + "_proftrace_names -f; return;;\n";
    case Values::kWords:
      return head + "COMPREPLY=($(compgen -W " + Single(proposals.words) +
             " -- \"$cur\")); return;;\n";
    case Values::kList:
      return head + "_proftrace_list " + Single(proposals.words) + "; return;;\n";
    case Values::kPids:
      return head +
             "COMPREPLY=($(compgen -W \"$(\"${COMP_WORDS[0]}\" list 2>/dev/null | awk '$1 + 0 > 0 "
             "{ print $1 }')\" -- \"$cur\")); return;;\n";
    case Values::kText:
      return head + "return;;\n";
  }
  return "";
}

// Returns an option as an argument of zsh's _arguments:
//     '(-p --pid)'{-p,--pid}'[text]:value:action'
std::string ZshOption(const CLI::App& command, const CLI::Option& option) {
  const std::vector<std::string> names = NamesOf(option);
  const Proposals proposals = ProposalsOf(command, option);
  std::string text = About(option.get_description());
  for (const std::string_view special : {"[", "]", ":"}) {
    text = Replaced(text, special, "\\" + std::string(special));
  }
  const bool is_repeated = option.get_items_expected_max() > 1;
  std::string line = "        ";
  if (is_repeated) {
    line += "'*'";
  } else if (names.size() > 1) {
    line += Single("(" + Joined(names, " ") + ")");
  }
  line += names.size() > 1 ? "{" + Joined(names, ",") + "}" : names.front();
  std::string action;
  switch (proposals.values) {
    case Values::kNone:
      break;
    case Values::kFiles:
      action = ":file:_files";
      break;
    case Values::kWords:
      action = ":word:(" + proposals.words + ")";
      break;
    case Values::kList:
      action = ":list:_sequence compadd - " + proposals.words;
      break;
    case Values::kPids:
      action = ":PID:_proftrace_pids";
      break;
    case Values::kText:
      action = ":" + Replaced(option.get_type_name(), ":", " ") + ": ";
      break;
  }
  return line + Single("[" + text + "]" + action) + " \\\n";
}

// Returns the condition for fish that the cursor is behind the command.
std::string FishPlace(const CLI::App& command) {
  // Options without a command belong to `record`.
  if (command.get_name() == "record") {
    return "not __fish_seen_subcommand_from $proftrace_others; and not __proftrace_behind_dashes";
  }
  // A group may have a command with the same name as a command of the program.
  const bool is_inner = command.get_parent()->get_parent() != nullptr;
  const std::string group = is_inner ? command.get_parent()->get_name() : "$proftrace_groups";
  return (is_inner ? "" : "not ") + ("__fish_seen_subcommand_from " + group) +
         "; and __fish_seen_subcommand_from " + command.get_name();
}

std::string FishOption(const CLI::App& command, const CLI::Option& option) {
  const Proposals proposals = ProposalsOf(command, option);
  std::string line = "complete -c proftrace -n " + Single(FishPlace(command));
  for (const std::string& name : option.get_snames()) line += " -s " + name;
  for (const std::string& name : option.get_lnames()) line += " -l " + name;
  line += " -d " + Single(About(option.get_description()));
  switch (proposals.values) {
    case Values::kNone:
      break;
    case Values::kFiles:
      line += " -r -F";
      break;
    case Values::kWords:
      line += " -x -a " + Single(proposals.words);
      break;
    case Values::kList:
      line += " -x -a " + Single("(__fish_append , " + proposals.words + ")");
      break;
    case Values::kPids:
      line += " -x -a '(__proftrace_pids)'";
      break;
    case Values::kText:
      line += " -x";
      break;
  }
  return line + "\n";
}

std::string AllWords(const CLI::App& command) {
  std::string words;
  for (const CLI::Option* option : OptionsOf(command)) {
    words += (words.empty() ? "" : " ") + Joined(NamesOf(*option), " ");
  }
  return words;
}

}  // namespace

std::string BashCompletion(const CLI::App& app) {
  std::string cases;
  std::string groups;
  for (const CLI::App* group : GroupsOfCommands(app)) {
    groups += "    " + group->get_name() +
              ")\n      if ((COMP_CWORD == 2)); then COMPREPLY=($(compgen -W " +
              Single(Joined(CommandNames(*group), " ")) +
              " -- \"$cur\")); return; fi\n      command+=\" ${COMP_WORDS[2]}\";;\n";
  }
  for (const CLI::App* command : AllCommandsOf(app)) {
    if (command->get_name() == kOwnCommand) continue;
    std::string options;
    for (const CLI::Option* option : OptionsOf(*command)) options += BashOption(*command, *option);
    cases +=
        "    '" + CommandName(*command) + "')\n      options=" + Single(AllWords(*command)) + "\n";
    if (!options.empty()) cases += "      case $prev in\n" + options + "      esac\n";
    cases += "      ;;\n";
  }
  return R"(# Completes proftrace in bash: source <(proftrace completion bash)
_proftrace_list() {
  local head=
  [[ $cur != *,* ]] || head=${cur%,*},
  compopt -o nospace
  COMPREPLY=($(compgen -P "$head" -W "$1" -- "${cur##*,}"))
}

# Of files (-f) or commands (-c), which may have spaces.
_proftrace_names() {
  compopt -o filenames
  mapfile -t COMPREPLY < <(compgen "$1" -- "$cur")
}

_proftrace() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command=record options= i
  # bash takes --option=value for three words.
  if [[ $cur == = ]]; then
    cur=
  elif [[ $prev == = ]]; then
    prev=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    if [[ ${COMP_WORDS[i]} == -- ]]; then
      # A command to run, then its arguments.
      if ((i + 1 == COMP_CWORD)); then _proftrace_names -c; else _proftrace_names -f; fi
      return
    fi
  done
  if ((COMP_CWORD == 1)) && [[ $cur != -* ]]; then
    COMPREPLY=($(compgen -W )" +
         Single(Joined(CommandNames(app), " ")) + R"( -- "$cur"))
    return
  fi
  [[ ${COMP_WORDS[1]} == -* ]] || command=${COMP_WORDS[1]}
  case $command in
)" + groups +
         R"(  esac
  case $command in
)" + cases +
         R"(    help) COMPREPLY=($(compgen -W )" + Single(Joined(CommandNames(app), " ")) +
         R"( -- "$cur")); return;;
    completion) COMPREPLY=($(compgen -W 'bash zsh fish' -- "$cur")); return;;
  esac
  if [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$cur"))
  elif [[ $command != record ]]; then
    _proftrace_names -f
  fi
}
complete -F _proftrace proftrace
)";
}

std::string ZshCompletion(const CLI::App& app) {
  std::string commands;
  std::string cases;
  for (const CLI::App* command : CommandsOf(app)) {
    commands += "    " +
                Single(command->get_name() + ":" +
                       Replaced(About(command->get_description()), ":", "\\:")) +
                "\n";
  }
  for (const CLI::App* command : AllCommandsOf(app)) {
    if (command->get_name() == kOwnCommand) continue;
    std::string options;
    for (const CLI::Option* option : OptionsOf(*command)) options += ZshOption(*command, *option);
    cases +=
        "    '" + CommandName(*command) + "')\n      _arguments -s \\\n" + options +
        (command->get_name() == "record" ? "        '(-)--[command to run]:*:::command:_normal'\n"
                                         : "        '*:file:_files'\n") +
        "      ;;\n";
  }
  std::string groups;
  for (const CLI::App* group : GroupsOfCommands(app)) {
    groups += "    " + group->get_name() + ")\n      if ((CURRENT == 2)); then compadd " +
              Joined(CommandNames(*group), " ") +
              "; return; fi\n      command+=\" $words[2]\"; shift words; ((CURRENT--));;\n";
  }
  return R"zsh(#compdef proftrace
# Completes proftrace in zsh: source <(proftrace completion zsh), or in $fpath as _proftrace.
_proftrace_pids() {
  local -a pids
  pids=(${(f)"$(proftrace list 2>/dev/null | awk '$1 + 0 > 0 { print $1 ":" $2 }')"})
  _describe -t processes 'PyTorch process' pids
}

_proftrace() {
  local -a commands
  commands=(
)zsh" + commands +
         R"zsh(  )
  local command=record
  if ((CURRENT == 2)) && [[ $words[2] != -* ]]; then
    _describe command commands
    return
  fi
  if [[ $words[2] != -* ]]; then
    command=$words[2]
    shift words
    ((CURRENT--))
  fi
  case $command in
)zsh" + groups +
         R"zsh(  esac
  case $command in
)zsh" + cases +
         R"zsh(    help) _describe command commands;;
    completion) compadd bash zsh fish;;
  esac
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _proftrace "$@"; else compdef _proftrace proftrace; fi
)zsh";
}

std::string FishCompletion(const CLI::App& app) {
  std::string text;
  std::vector<std::string> others;
  for (const CLI::App* command : CommandsOf(app)) {
    if (command->get_name() != "record") others.push_back(command->get_name());
    text += "complete -c proftrace -n '__fish_use_subcommand' -f -a " + command->get_name() +
            " -d " + Single(About(command->get_description())) + "\n";
  }
  std::vector<std::string> groups;
  for (const CLI::App* group : GroupsOfCommands(app)) {
    groups.push_back(group->get_name());
    for (const CLI::App* command : CommandsOf(*group)) {
      text += "complete -c proftrace -n '__fish_seen_subcommand_from " + group->get_name() +
              "; and not __fish_seen_subcommand_from " + Joined(CommandNames(*group), " ") +
              "' -f -a " + command->get_name() + " -d " +
              Single(About(command->get_description())) + "\n";
    }
  }
  for (const CLI::App* command : AllCommandsOf(app)) {
    for (const CLI::Option* option : OptionsOf(*command)) text += FishOption(*command, *option);
  }
  return R"(# Completes proftrace in fish: proftrace completion fish | source
function __proftrace_pids
  proftrace list 2>/dev/null | awk '$1 + 0 > 0 { print $1 "\t" $2 }'
end
function __proftrace_behind_dashes
  contains -- -- (commandline -opc)
end
set -g proftrace_others help )" +
         Joined(others, " ") + "\nset -g proftrace_groups " + Joined(groups, " ") + "\n" + text +
         "complete -c proftrace -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh "
         "fish'\n";
}

}  // namespace proftrace
