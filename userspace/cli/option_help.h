// What --help prints, and what is said of words that nobody knows.
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

// The width of a terminal that nobody has made wider.
inline constexpr size_t kHelpColumns = 80;

// Prints a command's description, how it is called, and its options by groups, in kHelpColumns. A
// command's footer is what follows its name where it is called, if that is not what its options
// say.
class HelpText : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* command, std::string name,
                        CLI::AppFormatMode mode) const override;
};

// Returns `text` in lines of at most `columns`, each after the first behind `indent` spaces. Line
// ends of the text stay. A word that is longer has a line of its own.
std::string WrappedText(std::string_view text, size_t columns, size_t indent);

// Returns what is typed after "proftrace": "report", "fleet query".
std::string CommandName(const CLI::App& command);

// Says that a word is no option, or no argument, of the command, and which one is near.
std::string UnknownWord(const CLI::App& command, std::string_view word);

// Says that a word is no command of `app`, the program or a group of its commands, and which one is
// near; of a number, how to record that process.
std::string UnknownCommand(const CLI::App& app, std::string_view word);

}  // namespace proftrace
