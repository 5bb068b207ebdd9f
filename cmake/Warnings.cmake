# The warnings that our own targets are built with. Link to it PRIVATE, so that they reach no dependency's header.
add_library(proftrace_warnings INTERFACE)
target_compile_options(proftrace_warnings INTERFACE
  -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wno-missing-field-initializers)
