#include "userspace/cli/json_schema.h"

#include <string>

#include "userspace/cli/say.h"

namespace proftrace {

CLI::Option* AddJsonSchema(CLI::App* command) {
  return command->add_flag_callback(
      "--json-schema",
      [command] {
        for (const EmbeddedText& schema : JsonSchemas()) {
          if (schema.name == command->get_name()) Print("%s", std::string(schema.text).c_str());
        }
        throw CLI::Success();
      },
      "prints the JSON Schema of what --json prints, and ends");
}

}  // namespace proftrace
