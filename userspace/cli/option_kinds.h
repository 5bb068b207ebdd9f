// The kinds of options that all commands share. The command-line library reads each one's text by
// the function that is given, and says with the option's name what that refuses.
#pragma once

#include <absl/status/statusor.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "userspace/base/exit_status.h"
#include "userspace/base/nearest_word.h"

namespace proftrace {

// Adds an option whose text is read into `*target` by `parse`, which takes a const std::string& and
// returns an absl::StatusOr. `value`: what --help calls it. `target` lives as long as the command.
template <typename Target, typename Parse>
CLI::Option* AddParsed(CLI::App* command, const std::string& names, const std::string& value,
                       Target* target, Parse parse, const std::string& text) {
  const std::string name = names.substr(names.rfind("--"));
  const auto read = [target, parse, name](const CLI::results_t& texts) {
    auto parsed = parse(texts.back());
    if (!parsed.ok()) throw CLI::ValidationError(name, std::string(parsed.status().message()));
    *target = *std::move(parsed);
    return true;
  };
  return command->add_option(names, read, text)->type_name(value);
}

template <typename T>
struct Choice {
  std::string_view name;
  T value;
};

// Adds an option that is one of a few words; --help shows them as its value.
template <typename T, size_t N>
CLI::Option* AddChoice(CLI::App* command, const std::string& names, T* target,
                       const std::array<Choice<T>, N>& choices, const std::string& text) {
  std::string value;
  for (const Choice<T>& choice : choices) {
    value += (value.empty() ? "" : "|") + std::string(choice.name);
  }
  const auto parse = [choices](const std::string& word) -> absl::StatusOr<T> {
    std::array<std::string_view, N> words;
    for (size_t i = 0; i < N; ++i) {
      if (choices[i].name == word) return choices[i].value;
      words[i] = choices[i].name;
    }
    return Fail(ExitCode::kUsage, NoneOf(word, words));
  };
  CLI::Option* option = AddParsed(command, names, value, target, parse, text);
  for (const Choice<T>& choice : choices) {
    if (choice.value == *target) option->default_str(std::string(choice.name));
  }
  return option;
}

}  // namespace proftrace
