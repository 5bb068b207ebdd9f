// What `--json` prints, as JSON Schema (draft 2020-12): schemas/COMMAND.schema.json.
#pragma once

#include <CLI/CLI.hpp>
#include <string_view>

namespace proftrace {

// Returns the schema of a command's documents, or of its lines; empty: it has none.
std::string_view JsonSchemaOf(std::string_view command);

// Adds --json-schema to a command that has --json: it prints the schema, and nothing else is done.
// Returns the option.
CLI::Option* AddJsonSchema(CLI::App* command);

}  // namespace proftrace
