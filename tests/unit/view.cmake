# What `view` serves. Requests may come from anybody on the machine.
proftrace_unit_test(view_test PARSER
  SOURCES view/http_request_test.cc view/http_server_test.cc view/pages_test.cc
  LIBS proftrace_view GTest::gmock)

# In a browser, if there is one; with Perfetto's and speedscope's own pages where PROFTRACE_VIEWERS is the folder that
# scripts/install-viewers.sh has made.
set(PROFTRACE_VIEWERS "" CACHE PATH "Pages of Perfetto and speedscope, for a test")
add_test(NAME view_page
  COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/browser/view_page_test.py
          $<TARGET_FILE:write_outputs> $<TARGET_FILE:proftrace> ${PROJECT_SOURCE_DIR}/tests/golden ${PROFTRACE_VIEWERS})
set_tests_properties(view_page PROPERTIES LABELS browser SKIP_RETURN_CODE ${PROFTRACE_SKIP_CODE})
