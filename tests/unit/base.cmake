# What all of proftrace stands on.
proftrace_unit_test(base_test PARSER
  SOURCES foreign_memory_test.cc guarded_folder_test.cc shown_text_test.cc
  LIBS proftrace_base)
