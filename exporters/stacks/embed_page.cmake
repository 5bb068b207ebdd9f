# Puts style and script into the page and writes it as C++: cmake -DFOLDER=… -DOUTPUT=… -P embed_page.cmake
file(READ ${FOLDER}/page.html page)
file(READ ${FOLDER}/page.css style)
set(script)
foreach(part IN ITEMS tree graph data functions page)
  file(READ ${FOLDER}/${part}.js text)
  string(APPEND script "${text}")
endforeach()
file(READ ${FOLDER}/head.html head)
string(REPLACE "@HEAD@" "${head}" page "${page}")
string(REPLACE "@STYLE@" "${style}" page "${page}")
string(REPLACE "@SCRIPT@" "${script}" page "${page}")
string(FIND "${page}" "@DATA@" data)
if(data EQUAL -1)
  message(FATAL_ERROR "page.html has no @DATA@")
endif()
string(SUBSTRING "${page}" 0 ${data} head)
math(EXPR after "${data} + 6")
string(SUBSTRING "${page}" ${after} -1 tail)
file(WRITE ${OUTPUT} "#include \"exporters/stacks/flamegraph_page.h\"

namespace proftrace {

const std::string_view kFlamegraphPageHead = R\"page(${head})page\";
const std::string_view kFlamegraphPageTail = R\"page(${tail})page\";

}  // namespace proftrace
")
