// Gives the JSON Schema (draft 2020-12) of the output of `--json`: schemas/COMMAND.schema.json.
#pragma once

#include <CLI/CLI.hpp>
#include <vector>

#include "userspace/base/embedded_text.h"

namespace proftrace {

// Returns the schemas of what commands print, each named as its command.
const std::vector<EmbeddedText>& JsonSchemas();

// Adds --json-schema to a command that has --json, and returns the option. The option prints the
// schema and does nothing else.
CLI::Option* AddJsonSchema(CLI::App* command);

}  // namespace proftrace
