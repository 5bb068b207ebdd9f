# libFuzzer, which clang has (with its runtime's package). It looks for inputs that reach other code: all code says what it reached.
include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_FLAGS -fsanitize=fuzzer)
check_cxx_source_compiles(
  "extern \"C\" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }" PROFTRACE_HAS_LIBFUZZER)
unset(CMAKE_REQUIRED_FLAGS)
if(PROFTRACE_HAS_LIBFUZZER)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
