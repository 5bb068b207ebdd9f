# What makes a mistake in code that reads other people's bytes end the program instead of running their code. For what is shipped
# (harden()). The agent has flags of its own: it runs in jobs, on any libc.
include(CheckCXXCompilerFlag)
include(CheckCXXSourceCompiles)

add_library(proftrace_hardening INTERFACE)
target_compile_definitions(proftrace_hardening INTERFACE $<$<COMPILE_LANGUAGE:CXX>:_GLIBCXX_ASSERTIONS>)
foreach(flag IN ITEMS -fPIE -fstack-protector-strong -fstack-clash-protection -fcf-protection)
  string(MAKE_C_IDENTIFIER "PROFTRACE_HAS${flag}" has)
  check_cxx_compiler_flag(${flag} ${has})
  if(${has})
    target_compile_options(proftrace_hardening INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:${flag}>)
  endif()
endforeach()
# The sanitizers check more, and do not know the functions that check. It needs an optimized build.
if(NOT PROFTRACE_SANITIZE AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  # 3: also sizes that are known when the program runs (GCC 12, Clang 9, glibc 2.34).
  set(CMAKE_REQUIRED_FLAGS "-O2 -Werror -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3")
  check_cxx_source_compiles("#include <string.h>
    char to[8];
    int main(int count, char** text) {
      return memcpy(to, *text, static_cast<size_t>(count)) == nullptr || __builtin_dynamic_object_size(to, 0) == 0;
    }" PROFTRACE_HAS_FORTIFY_3)
  unset(CMAKE_REQUIRED_FLAGS)
  set(level 2)
  if(PROFTRACE_HAS_FORTIFY_3)
    set(level 3)
  endif()
  target_compile_options(proftrace_hardening INTERFACE
    $<$<COMPILE_LANGUAGE:C,CXX>:-U_FORTIFY_SOURCE> $<$<COMPILE_LANGUAGE:C,CXX>:-D_FORTIFY_SOURCE=${level}>)
endif()

# harden(TARGET...): libraries of the program, or the program.
function(harden)
  foreach(target IN LISTS ARGN)
    target_link_libraries(${target} PRIVATE proftrace_hardening)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "EXECUTABLE")
      target_link_options(${target} PRIVATE -pie -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
    endif()
  endforeach()
endfunction()
