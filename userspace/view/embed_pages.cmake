# Writes the script and the page as C++: cmake -DFOLDER=… -DOUTPUT=… -P embed_pages.cmake
file(READ ${FOLDER}/view.js script)
file(READ ${FOLDER}/trace.html page)
file(WRITE ${OUTPUT} "#include \"userspace/view/pages.h\"

namespace proftrace {

const std::string_view kViewScript = R\"page(${script})page\";
const std::string_view kTracePage = R\"page(${page})page\";

}  // namespace proftrace
")
