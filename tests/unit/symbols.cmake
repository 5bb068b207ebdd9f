proftrace_unit_test(symbols_code_test PARSER
  SOURCES symbols/code_test.cc
  LIBS proftrace_symbols)
proftrace_unit_test(symbols_arguments_test
  SOURCES symbols/arguments_test.cc
  LIBS proftrace_symbols)
proftrace_unit_test(symbols_autograd_test
  SOURCES symbols/autograd_test.cc
  LIBS proftrace_symbols)
proftrace_unit_test(symbols_inputs_test
  SOURCES symbols/inputs_test.cc
  LIBS proftrace_symbols)
proftrace_unit_test(symbols_job_identity_test
  SOURCES symbols/job_identity_test.cc
  LIBS proftrace_symbols)
proftrace_unit_test(symbols_kept_arguments_test
  SOURCES symbols/kept_arguments_test.cc
  LIBS proftrace_symbols)
# Has made-up functions, whose windows it looks for in its own file.
proftrace_unit_test(symbols_module_patches_test
  SOURCES symbols/module_patches_test.cc
  LIBS proftrace_symbols GTest::gmock)
proftrace_unit_test(symbols_moved_code_test PARSER
  SOURCES symbols/moved_code_test.cc
  LIBS proftrace_symbols GTest::gmock)
pkg_check_modules(UNICORN IMPORTED_TARGET unicorn>=2)
if(UNICORN_FOUND)
  proftrace_unit_test(symbols_moved_code_emulated_test
    SOURCES symbols/moved_code_emulated_test.cc symbols/emulator.cc
    LIBS proftrace_symbols PkgConfig::CAPSTONE PkgConfig::UNICORN)
else()
  message(STATUS "no Unicorn 2: moved code is not run in an emulator")
endif()
# A library as wheels have them: its C++ runtime and unwinder are in it, without names.
add_library(own_runtime MODULE ${PROJECT_SOURCE_DIR}/tests/support/own_runtime.cc)
target_compile_options(own_runtime PRIVATE -fvisibility=hidden)
target_link_options(own_runtime PRIVATE -static-libstdc++ -static-libgcc -Wl,--exclude-libs,ALL -s)
proftrace_unit_test(symbols_unwinder_entry_test
  SOURCES symbols/unwinder_entry_test.cc
  LIBS proftrace_symbols)
add_dependencies(symbols_unwinder_entry_test own_runtime)
target_compile_definitions(symbols_unwinder_entry_test
  PRIVATE PROFTRACE_OWN_RUNTIME="$<TARGET_FILE:own_runtime>")
# Stripped, as distributions' interpreters are.
add_library(collector MODULE ${PROJECT_SOURCE_DIR}/tests/support/collector.cc)
target_compile_options(collector PRIVATE -O2 -fvisibility=hidden)
target_link_options(collector PRIVATE -s)
proftrace_unit_test(symbols_garbage_collector_test
  SOURCES symbols/garbage_collector_test.cc
  LIBS proftrace_symbols)
add_dependencies(symbols_garbage_collector_test collector)
target_compile_definitions(symbols_garbage_collector_test
  PRIVATE PROFTRACE_COLLECTOR="$<TARGET_FILE:collector>")
proftrace_unit_test(symbols_native_test PARSER
  SOURCES symbols/native_test.cc
  LIBS proftrace_symbols GTest::gmock)
proftrace_unit_test(symbols_patch_windows_test PARSER
  SOURCES symbols/patch_windows_test.cc
  LIBS proftrace_symbols GTest::gmock)
proftrace_unit_test(symbols_rows_test
  SOURCES symbols/rows_test.cc
  LIBS proftrace_symbols)
# What they call is nowhere: they are read, not loaded.
foreach(clear 0 1)
  add_library(fast_context_${clear} MODULE ${PROJECT_SOURCE_DIR}/tests/support/fast_context.cc)
  target_compile_definitions(fast_context_${clear} PRIVATE CLEAR=${clear})
  target_compile_options(fast_context_${clear} PRIVATE -O2 -fvisibility=hidden)
  add_dependencies(symbols_rows_test fast_context_${clear})
  target_compile_definitions(symbols_rows_test
    PRIVATE PROFTRACE_FAST_CONTEXT_${clear}="$<TARGET_FILE:fast_context_${clear}>")
endforeach()
# Has a made-up function, whose catches it looks for in its own file.
proftrace_unit_test(symbols_node_calls_test
  SOURCES symbols/node_calls_test.cc
  LIBS proftrace_symbols)
proftrace_unit_test(symbols_python_arguments_test PARSER
  SOURCES symbols/python_arguments_test.cc
  LIBS proftrace_symbols)
proftrace_unit_test(symbols_row_inputs_test PARSER
  SOURCES symbols/row_inputs_test.cc
  LIBS proftrace_symbols)
proftrace_unit_test(symbols_worker_test
  SOURCES symbols/worker_test.cc
  LIBS proftrace_symbols GTest::gmock)
proftrace_unit_test(symbols_target_test PARSER
  SOURCES symbols/target_test.cc symbols/control_groups_test.cc symbols/cpu_mask_test.cc
    symbols/cpu_quotas_test.cc
  LIBS proftrace_symbols)
proftrace_unit_test(symbols_held_file_test
  SOURCES symbols/held_file_test.cc
  LIBS proftrace_symbols)
proftrace_unit_test(symbols_late_libraries_test
  SOURCES symbols/late_libraries_test.cc
  LIBS proftrace_symbols)
proftrace_unit_test(symbols_cache_test PARSER
  SOURCES symbols/cache_test.cc
  LIBS proftrace_symbols)
proftrace_unit_test(symbols_known_plans_test PARSER
  SOURCES symbols/known_plans_test.cc
  LIBS proftrace_symbols)
# Exports made-up operators, so that it can plan itself.
proftrace_unit_test(symbols_plan_test
  SOURCES symbols/plan_test.cc
  LIBS proftrace_symbols)
set_target_properties(symbols_plan_test PROPERTIES ENABLE_EXPORTS ON)
proftrace_unit_test(symbols_schema_test PARSER
  SOURCES symbols/schema_test.cc
  LIBS proftrace_symbols)
proftrace_unit_test(symbols_groups_test
  SOURCES symbols/groups_test.cc
  LIBS proftrace_symbols GTest::gmock)
proftrace_unit_test(symbols_scripts_test PARSER
  SOURCES symbols/scripts_test.cc
  LIBS proftrace_symbols)
proftrace_unit_test(symbols_read_budget_test PARSER
  SOURCES symbols/read_budget_test.cc
  LIBS proftrace_symbols)
