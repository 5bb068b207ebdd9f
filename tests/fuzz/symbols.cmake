proftrace_fuzz_target(symbols_fuzz SOURCES symbols_fuzz.cc LIBS proftrace_symbols)
# What a process may have in its memory where Python, the Dispatcher and the dynamic linker are read.
proftrace_fuzz_target(process_memory_fuzz SOURCES process_memory_fuzz.cc LIBS proftrace_symbols proftrace_decode)
