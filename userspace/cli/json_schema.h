// Gives the JSON Schema (draft 2020-12) of the output of `--json`: schemas/COMMAND.schema.json.
#pragma once

#include <CLI/CLI.hpp>
#include <string_view>

namespace proftrace {

// Returns the schema of the documents or lines that a command prints; empty where it has none.
std::string_view JsonSchemaOf(std::string_view command);

// Adds --json-schema to a command that has --json, and returns the option. The option prints the
// schema and does nothing else.
CLI::Option* AddJsonSchema(CLI::App* command);

}  // namespace proftrace
