// Makes the text of --help, and the messages about unknown words.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace proftrace {

// The groups of record's options, in the order in which --help shows them.
inline constexpr char kGroupWhat[] = "What to record";
inline constexpr char kGroupWhen[] = "When";
inline constexpr char kGroupHow[] = "How";
inline constexpr char kGroupOutputs[] = "Outputs";
inline constexpr char kGroupMessages[] = "Messages";

// The width of help texts: that of a standard terminal.
inline constexpr size_t kHelpColumns = 80;

// Makes a command's help: its description, its usage line, and its options by groups, in
// kHelpColumns columns. A command whose usage line cannot be derived from its options has the words
// behind its name as its footer.
class HelpText : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* command, std::string name,
                        CLI::AppFormatMode mode) const override;
};

// Returns `text` wrapped to lines of at most `columns` characters. All lines but the first are
// indented by `indent` spaces. Line ends of the text stay, and a word that is too long gets its own
// line.
std::string WrappedText(std::string_view text, size_t columns, size_t indent);

// Returns the words of a command after "proftrace": "report", "fleet query".
std::string CommandName(const CLI::App& command);

// Returns the message that a word is not an option or argument of the command, with the most
// similar one.
std::string UnknownWord(const CLI::App& command, std::string_view word);

// Returns the message that a word is not a command of `app` (the program or a group of commands),
// with the most similar one. For a number, the message says how to record that process.
std::string UnknownCommand(const CLI::App& app, std::string_view word);

}  // namespace proftrace
