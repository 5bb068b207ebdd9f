# Writes the questions and the engines' driver as C++: cmake -DFOLDER=fleet -DOUTPUT=… -P embed_questions.cmake
file(GLOB questions LIST_DIRECTORIES OFF ${FOLDER}/sql/*.sql)
list(SORT questions)
set(entries)
foreach(question IN LISTS questions)
  get_filename_component(name ${question} NAME_WE)
  file(READ ${question} text)
  string(APPEND entries "    {\"${name}\", R\"question(${text})question\"},\n")
endforeach()
file(READ ${FOLDER}/engine/driver.py driver)
file(WRITE ${OUTPUT} "#include \"userspace/fleet_questions/embedded.h\"

namespace proftrace {

const std::vector<EmbeddedQuestion>& EmbeddedQuestions() {
  static const auto* const kQuestions = new std::vector<EmbeddedQuestion>{
${entries}  };
  return *kQuestions;
}

const std::string_view kEngineDriver = R\"driver(${driver})driver\";

}  // namespace proftrace
")
