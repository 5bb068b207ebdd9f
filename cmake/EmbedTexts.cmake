# Writes files into the program: constants for single files, and a list of all files of a pattern.
#   cmake -DOUTPUT=FILE.cc -DHEADER=FILE.h [-DCONSTANTS=kName=FILE[;kName=FILE…]] [-DLIST=Function -DFILES=PATTERN] -P EmbedTexts.cmake
# HEADER declares what is defined here: "extern const std::string_view kName;" and
# "const std::vector<EmbeddedText>& Function();", which has the files in the order of their names.
set(code)
foreach(constant IN LISTS CONSTANTS)
  string(REGEX MATCH "^([^=]+)=(.+)$" parts "${constant}")
  file(READ ${CMAKE_MATCH_2} text)
  string(APPEND code "const std::string_view ${CMAKE_MATCH_1} = R\"embedded(${text})embedded\";\n\n")
endforeach()
if(LIST)
  file(GLOB files LIST_DIRECTORIES OFF ${FILES})
  list(SORT files)
  set(entries)
  foreach(file IN LISTS files)
    get_filename_component(name ${file} NAME_WE)
    file(READ ${file} text)
    string(APPEND entries "      {\"${name}\", R\"embedded(${text})embedded\"},\n")
  endforeach()
  string(APPEND code "const std::vector<EmbeddedText>& ${LIST}() {
  static const auto* const kTexts = new std::vector<EmbeddedText>{
${entries}  };
  return *kTexts;
}

")
endif()
file(WRITE ${OUTPUT} "#include \"${HEADER}\"\n\nnamespace proftrace {\n\n${code}}  // namespace proftrace\n")
