# Puts style and script into the page and writes it as C++: cmake -DFOLDER=… -DFLAMEGRAPH=… -DOUTPUT=… -P embed_page.cmake
# FLAMEGRAPH: the folder of the flame graph's page, whose head, trees and drawing this page has as well.
file(READ ${FOLDER}/page.html page)
file(READ ${FOLDER}/page.css style)
set(script)
foreach(part IN ITEMS ${FLAMEGRAPH}/tree ${FLAMEGRAPH}/graph ${FOLDER}/unpack ${FOLDER}/look ${FOLDER}/table
        ${FOLDER}/steps ${FOLDER}/timeline ${FOLDER}/sections ${FOLDER}/system ${FOLDER}/page)
  file(READ ${part}.js text)
  string(APPEND script "${text}")
endforeach()
file(READ ${FLAMEGRAPH}/head.html head)
string(REPLACE "@HEAD@" "${head}" page "${page}")
string(REPLACE "@STYLE@" "${style}" page "${page}")
file(READ ${FOLDER}/old.js old)
string(REPLACE "@OLD@" "${old}" page "${page}")
string(REPLACE "@SCRIPT@" "${script}" page "${page}")

# C++ compilers need not take a literal of more than 64 KiB: pieces of 15000 characters are joined.
function(as_literal text name)
  set(literal)
  string(LENGTH "${text}" length)
  set(at 0)
  while(at LESS length)
    string(SUBSTRING "${text}" ${at} 15000 piece)
    string(APPEND literal "\n    R\"page(${piece})page\"")
    math(EXPR at "${at} + 15000")
  endwhile()
  set(${name} "${literal}" PARENT_SCOPE)
endfunction()

string(FIND "${page}" "@FACTS@" facts)
string(FIND "${page}" "@COLUMNS@" columns)
if(facts EQUAL -1 OR columns EQUAL -1)
  message(FATAL_ERROR "page.html has no @FACTS@ or no @COLUMNS@")
endif()
string(SUBSTRING "${page}" 0 ${facts} head)
math(EXPR after "${facts} + 7")
math(EXPR between "${columns} - ${after}")
string(SUBSTRING "${page}" ${after} ${between} middle)
math(EXPR after "${columns} + 9")
string(SUBSTRING "${page}" ${after} -1 tail)
as_literal("${head}" head_literal)
as_literal("${middle}" middle_literal)
as_literal("${tail}" tail_literal)
file(WRITE ${OUTPUT} "#include \"exporters/report/report_page.h\"

namespace proftrace {

const std::string_view kReportPageHead =${head_literal};
const std::string_view kReportPageMiddle =${middle_literal};
const std::string_view kReportPageTail =${tail_literal};

}  // namespace proftrace
")
