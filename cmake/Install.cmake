# What `cmake --install` lays down. The agent is in the program; its file is for jobs that the program starts, which finds it there.
include(GNUInstallDirs)
if(PROFTRACE_STATIC)
  install(TARGETS proftrace_static RUNTIME DESTINATION bin)
else()
  install(TARGETS proftrace RUNTIME DESTINATION bin)
endif()
install(FILES $<TARGET_FILE:proftrace_agent> DESTINATION lib/proftrace)
install(FILES LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
