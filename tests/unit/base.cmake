# What all of proftrace stands on.
proftrace_unit_test(base_test PARSER
  SOURCES base/foreign_memory_test.cc base/guarded_folder_test.cc base/nearest_word_test.cc base/shown_text_test.cc
          base/standard_output_test.cc base/stretches_test.cc base/tar_test.cc
  LIBS proftrace_base GTest::gmock)
