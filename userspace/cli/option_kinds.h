// Adds options of the kinds that all commands share. The command-line library reads an option's
// text by the given function, and reports what the function refuses together with the option's
// name.
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
// returns an absl::StatusOr. `value`: the placeholder that --help shows for the value. `target`
// must live as long as the command.
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

// Adds an option whose value is one of a few words, which --help lists.
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
