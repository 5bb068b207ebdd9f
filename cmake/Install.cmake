# What `cmake --install` lays down. The agent is in the program; its file is for jobs that the program starts, which finds it there.
include(GNUInstallDirs)
if(PROFTRACE_STATIC)
  install(TARGETS proftrace_static RUNTIME DESTINATION bin)
else()
  install(TARGETS proftrace RUNTIME DESTINATION bin)
endif()
install(FILES $<TARGET_FILE:proftrace_agent> DESTINATION lib/proftrace)
install(FILES LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
# The questions of a fleet, for other programs: ours has them in it.
install(DIRECTORY fleet/sql DESTINATION lib/proftrace/fleet)
# The Python package, of which the wheel is made; elsewhere PYTHONPATH may name its folder.
install(DIRECTORY userspace/python/proftrace DESTINATION lib/proftrace/python PATTERN __pycache__ EXCLUDE)
# The manual pages and the completions, of what the program says of itself.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(manual ${CMAKE_BINARY_DIR}/manual)
add_custom_command(
  OUTPUT ${manual}/man/man1/proftrace.1
  COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/scripts/make-manual.py $<TARGET_FILE:proftrace> ${manual}
  DEPENDS proftrace ${PROJECT_SOURCE_DIR}/scripts/make-manual.py
  COMMENT "Writing the manual pages" VERBATIM)
add_custom_target(proftrace_manual ALL DEPENDS ${manual}/man/man1/proftrace.1)
install(DIRECTORY ${manual}/ DESTINATION ${CMAKE_INSTALL_DATADIR})
