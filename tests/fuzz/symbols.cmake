# A libFuzzer target where the compiler has it; else a program that replays and mutates the files given to it.
include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_FLAGS -fsanitize=fuzzer)
check_cxx_source_compiles(
  "extern \"C\" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }" PROFTRACE_HAS_LIBFUZZER)
unset(CMAKE_REQUIRED_FLAGS)

add_executable(symbols_fuzz symbols_fuzz.cc)
target_link_libraries(symbols_fuzz PRIVATE proftrace_symbols)
if(PROFTRACE_HAS_LIBFUZZER)
  target_compile_options(symbols_fuzz PRIVATE -fsanitize=fuzzer)
  target_link_options(symbols_fuzz PRIVATE -fsanitize=fuzzer)
else()
  target_sources(symbols_fuzz PRIVATE symbols_fuzz_replay_main.cc)
endif()
