#include "userspace/cli/json_schema.h"

#include <string>

#include "userspace/cli/say.h"

namespace proftrace {

CLI::Option* AddJsonSchema(CLI::App* command) {
  return command->add_flag_callback(
      "--json-schema",
      [command] {
        Print("%s", std::string(JsonSchemaOf(command->get_name())).c_str());
        throw CLI::Success();
      },
      "print what --json prints as a JSON Schema, and end");
}

}  // namespace proftrace
