# With PROFTRACE_PRECOMPILED_HEADERS the compiler finds the headers that most files include read already. Each file includes what
# it uses all the same: a build without them finds what one forgot.

# precompiled_set(NAME HEADERS... [LIBS...] [OPTIONS...]): headers, with the options of the targets that are to use them.
function(precompiled_set name)
  cmake_parse_arguments(ARG "" "" "HEADERS;LIBS;OPTIONS" ${ARGN})
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc CONTENT "" @ONLY)
  add_library(${name} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc)
  target_link_libraries(${name} PRIVATE ${ARG_LIBS})
  target_compile_options(${name} PRIVATE ${ARG_OPTIONS})
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
endfunction()

function(use_precompiled target set)
  if(PROFTRACE_PRECOMPILED_HEADERS)
    target_precompile_headers(${target} REUSE_FROM ${set})
  endif()
endfunction()

set(PROFTRACE_COMMON_HEADERS
  <algorithm> <array> <atomic> <chrono> <cstdint> <cstring> <filesystem> <functional> <map> <memory> <mutex> <optional> <set>
  <span> <string> <string_view> <thread> <utility> <variant> <vector> <absl/container/flat_hash_map.h>
  <absl/container/flat_hash_set.h> <absl/status/status.h> <absl/status/statusor.h> <absl/strings/str_cat.h>
  <absl/strings/str_format.h>)
if(PROFTRACE_PRECOMPILED_HEADERS)
  precompiled_set(proftrace_headers HEADERS ${PROFTRACE_COMMON_HEADERS}
    LIBS absl::flat_hash_map absl::flat_hash_set absl::statusor absl::str_format proftrace_hardening)
endif()
