# Writes the schemas of --json as C++: cmake -DFOLDER=schemas -DOUTPUT=… -P embed_schemas.cmake
file(GLOB schemas LIST_DIRECTORIES OFF ${FOLDER}/*.schema.json)
list(SORT schemas)
set(entries)
foreach(schema IN LISTS schemas)
  get_filename_component(name ${schema} NAME_WE)
  file(READ ${schema} text)
  string(APPEND entries "  if (command == \"${name}\") return R\"schema(${text})schema\";\n")
endforeach()
file(WRITE ${OUTPUT} "#include \"userspace/cli/json_schema.h\"

namespace proftrace {

std::string_view JsonSchemaOf(std::string_view command) {
${entries}  return {};
}

}  // namespace proftrace
")
