# Captures of real jobs, and all that is made of them. Each folder has a why.md; renew.sh makes them anew.
foreach(case IN ITEMS mlp exceptions forced_loss workers killed_tracer names gpu)
  add_test(NAME golden_${case}
    COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/golden_test.py
            $<TARGET_FILE:proftrace> ${CMAKE_CURRENT_LIST_DIR}/${case})
  set_tests_properties(golden_${case} PROPERTIES LABELS golden)
endforeach()
add_test(NAME golden_h100
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/h100_test.py $<TARGET_FILE:proftrace>)
set_tests_properties(golden_h100 PROPERTIES LABELS golden)
add_test(NAME golden_sqlite
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/sqlite_test.py
          $<TARGET_FILE:proftrace> ${CMAKE_CURRENT_LIST_DIR})
set_tests_properties(golden_sqlite PROPERTIES LABELS golden)
# PROFTRACE_PARQUET_PYTHON names a Python that has duckdb, pyarrow, polars or pandas: that of fleet's questions.
add_test(NAME golden_parquet
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/parquet_test.py
          $<TARGET_FILE:proftrace> $<TARGET_FILE:write_parquet> ${CMAKE_CURRENT_LIST_DIR})
set_tests_properties(golden_parquet PROPERTIES LABELS golden)
add_test(NAME golden_fleet_tables
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/fleet_tables_test.py
          $<TARGET_FILE:proftrace> ${CMAKE_CURRENT_LIST_DIR})
set_tests_properties(golden_fleet_tables PROPERTIES LABELS golden)
add_test(NAME golden_fleet_compact
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/fleet_compact_test.py
          $<TARGET_FILE:proftrace> $<TARGET_FILE:shift_capture> ${CMAKE_CURRENT_LIST_DIR})
set_tests_properties(golden_fleet_compact PROPERTIES LABELS golden)
if(PROFTRACE_FLEET_PYTHON)
  set_tests_properties(golden_parquet golden_fleet_tables golden_fleet_compact PROPERTIES
    ENVIRONMENT PROFTRACE_PARQUET_PYTHON=${PROFTRACE_FLEET_PYTHON})
endif()
add_test(NAME golden_processes
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/processes_test.py
          $<TARGET_FILE:proftrace> ${CMAKE_CURRENT_LIST_DIR})
set_tests_properties(golden_processes PROPERTIES LABELS golden)
add_test(NAME golden_stacks
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/stacks_test.py
          $<TARGET_FILE:proftrace> ${CMAKE_CURRENT_LIST_DIR})
set_tests_properties(golden_stacks PROPERTIES LABELS golden)
add_test(NAME golden_unique_names
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/unique_names_test.py
          $<TARGET_FILE:proftrace> $<TARGET_FILE:unique_names>)
set_tests_properties(golden_unique_names PROPERTIES LABELS golden)
add_test(NAME golden_damage
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/damage_test.py
          $<TARGET_FILE:proftrace> ${CMAKE_CURRENT_LIST_DIR})
set_tests_properties(golden_damage PROPERTIES LABELS golden)
add_test(NAME golden_report
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/report_test.py
          $<TARGET_FILE:proftrace> ${CMAKE_CURRENT_LIST_DIR})
set_tests_properties(golden_report PROPERTIES LABELS golden)
