#include "userspace/cli/option_help.h"

#include <algorithm>
#include <string>

#include "userspace/base/nearest_word.h"
#include "userspace/base/shown_text.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

constexpr size_t kTextColumn = 27;  // the column at which descriptions begin
constexpr size_t kMostOthers = 3;   // the most excluded options that an option's text names

// Returns the placeholder for an option's value. The library's name of the type has the rules that
// it checks behind a colon; these are cut off.
std::string ValueName(const CLI::Option& option) {
  const std::string name = option.get_type_name().substr(0, option.get_type_name().find(':'));
  if (option.get_items_expected_max() == 0) return "";
  if (name == "UINT" || name == "INT") return "N";
  return name.empty() ? "TEXT" : name;
}

std::string Names(const CLI::Option& option) {
  std::string text;
  for (const std::string& name : option.get_snames()) text += "-" + name + ", ";
  for (const std::string& name : option.get_lnames()) text += "--" + name + ", ";
  text.resize(text.size() - 2);
  const std::string value = ValueName(option);
  return value.empty() ? text : text + " " + value;
}

std::string OthersOf(const std::set<CLI::Option*>& options) {
  std::vector<std::string> names;
  for (const CLI::Option* other : options) names.push_back(other->get_name());
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string Description(const CLI::Option& option) {
  std::string text = option.get_description();
  std::vector<std::string> notes;
  if (option.get_required() && !option.get_positional()) notes.emplace_back("must be given");
  if (option.get_items_expected_max() > 1) notes.emplace_back("may be given again");
  if (!option.get_needs().empty()) notes.push_back("with " + OthersOf(option.get_needs()));
  // A longer list of excluded options is left out, because it is all options of another group.
  if (!option.get_excludes().empty() && option.get_excludes().size() <= kMostOthers)
    notes.push_back("not with " + OthersOf(option.get_excludes()));
  if (!option.get_default_str().empty() && option.get_items_expected_max() > 0) {
    notes.push_back("default: " + option.get_default_str());
  }
  for (size_t i = 0; i < notes.size(); ++i) text += (i == 0 ? " (" : "; ") + notes[i];
  return notes.empty() ? text : text + ")";
}

std::string Line(const std::string& head, const std::string& text) {
  std::string line = "  " + head;
  if (text.empty()) return line + "\n";
  if (line.size() + 2 > kTextColumn) {
    line += "\n" + std::string(kTextColumn, ' ');
  } else {
    line.append(kTextColumn - line.size(), ' ');
  }
  return line + WrappedText(text, kHelpColumns - kTextColumn, kTextColumn) + "\n";
}

// Returns the groups of options. The group of --help, which is the first option, comes last.
std::vector<std::string> GroupsOf(const CLI::App& command) {
  std::vector<std::string> groups;
  for (const CLI::Option* option : command.get_options()) {
    const std::string& group = option->get_group();
    if (option->get_positional() || group.empty()) continue;
    if (std::find(groups.begin(), groups.end(), group) == groups.end()) groups.push_back(group);
  }
  const CLI::Option* help = command.get_help_ptr();
  const auto own = std::find(groups.begin(), groups.end(), help->get_group());
  if (own != groups.end()) std::rotate(own, own + 1, groups.end());
  return groups;
}

// Returns the usage line's arguments: the required ones, and "[OPTIONS]" for the rest.
std::string Arguments(const CLI::App& command) {
  std::string text;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional()) {
      text += option->get_name(/*positional=*/true) + " ";
    } else if (option->get_required()) {
      text += "-" + std::string(option->get_snames().empty() ? "-" : "") +
              (option->get_snames().empty() ? option->get_lnames() : option->get_snames()).front() +
              " " + ValueName(*option) + " ";
    }
  }
  return text + "[OPTIONS]";
}

std::string HowToCall(const CLI::App& command) {
  std::string text = "Usage: proftrace ";
  if (command.get_parent() != nullptr) text += CommandName(command) + " ";
  return WrappedText(
             text + (command.get_footer().empty() ? Arguments(command) : command.get_footer()),
             kHelpColumns, 7) +
         "\n";
}

std::vector<std::string> WordsOf(const CLI::App& command) {
  std::vector<std::string> words;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty() || option->get_positional()) continue;
    for (const std::string& name : option->get_snames()) words.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
  }
  return words;
}

std::string_view Nearest(std::string_view word, const std::vector<std::string>& words) {
  const std::vector<std::string_view> views(words.begin(), words.end());
  return NearestWord(word, views);
}

}  // namespace

std::string WrappedText(std::string_view text, size_t columns, size_t indent) {
  std::string out;
  bool is_first = true;
  for (const std::string_view line : SplitText(text, "\n", /*skip_empty=*/false)) {
    if (!is_first) out += "\n" + std::string(indent, ' ');
    is_first = false;
    size_t used = 0;
    for (const std::string_view word : SplitText(line, " ", /*skip_empty=*/true)) {
      if (used > 0 && used + 1 + word.size() > columns) {
        out += "\n" + std::string(indent, ' ');
        used = 0;
      }
      out += (used > 0 ? " " : "") + std::string(word);
      used += (used > 0 ? 1 : 0) + word.size();
    }
  }
  return out;
}

std::string HelpText::make_help(const CLI::App* command, std::string /*name*/,
                                CLI::AppFormatMode /*mode*/) const {
  std::string text = WrappedText(command->get_description(), kHelpColumns, 0) + "\n";
  text += HowToCall(*command);
  const auto positionals =
      command->get_options([](const CLI::Option* option) { return option->get_positional(); });
  if (!positionals.empty()) text += "\nArguments:\n";
  for (const CLI::Option* option : positionals) {
    text += Line(option->get_name(/*positional=*/true), Description(*option));
  }
  for (const std::string& group : GroupsOf(*command)) {
    text += "\n" + group + ":\n";
    for (const CLI::Option* option : command->get_options()) {
      if (option->get_positional() || option->get_group() != group) continue;
      text += Line(Names(*option), Description(*option));
    }
  }
  const auto commands = command->get_subcommands([](const CLI::App*) { return true; });
  if (!commands.empty()) text += "\nCommands:\n";
  for (const CLI::App* one : commands) {
    const std::string about = one->get_description();
    // The example is left out here; the command's own help shows it.
    if (!one->get_group().empty())
      text += Line(one->get_name(), about.substr(0, about.find("\nExample:")));
  }
  return text;
}

std::string CommandName(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  if (parent == nullptr || parent->get_parent() == nullptr) return command.get_name();
  return CommandName(*parent) + " " + command.get_name();
}

std::string UnknownWord(const CLI::App& command, std::string_view word) {
  const std::string name = CommandName(command);
  if (!word.starts_with("-")) {
    return "'" + ShownText(word) + "' is one argument too many for proftrace " + name;
  }
  const std::string_view option = word.substr(0, word.find('='));
  const std::vector<std::string> words = WordsOf(command);
  const std::string_view nearest = Nearest(option, words);
  std::string text = name + " has no option " + ShownText(option);
  if (!nearest.empty()) text += "; did you mean " + std::string(nearest) + "?";
  return text;
}

std::string UnknownCommand(const CLI::App& app, std::string_view word) {
  const bool is_group = app.get_parent() != nullptr;
  std::string text = "'" + ShownText(word) + "' is no command of proftrace";
  if (is_group) text += " " + CommandName(app);
  if (!is_group && ParseNumber<uint32_t>(word).has_value()) {
    return text + "; to record that process: proftrace -p " + std::string(word);
  }
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  if (!is_group) names.emplace_back("help");
  const std::string_view nearest = Nearest(word, names);
  if (!nearest.empty()) text += "; did you mean " + std::string(nearest) + "?";
  return text;
}

}  // namespace proftrace
