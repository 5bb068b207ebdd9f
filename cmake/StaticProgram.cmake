# A second link of the program, of the same objects, that needs no shared library: bin/static/proftrace. Included last: it names
# the program's parts. It compresses with zlib, because distributions have ISA-L as a shared library alone.
option(PROFTRACE_STATIC "Also link bin/static/proftrace, which needs no shared library; install it in place of the other" OFF)
if(NOT PROFTRACE_STATIC)
  return()
endif()

# archive(OUTPUT NAME): the path of libNAME.a.
function(archive output name)
  find_library(PROFTRACE_ARCHIVE_${name} lib${name}.a HINTS ${LIBBPF_LIBRARY_DIRS} NO_CMAKE_FIND_ROOT_PATH REQUIRED)
  set(${output} ${PROFTRACE_ARCHIVE_${name}} PARENT_SCOPE)
endfunction()

set(archives)
# lzma and bz2 are libdw's.
foreach(name IN ITEMS bpf elf dw capstone seccomp zstd xxhash sqlite3 z lzma bz2)
  archive(path ${name})
  list(APPEND archives ${path})
endforeach()
# Abseil's parts need each other in an order that changes with its versions.
archive(path absl_base)
get_filename_component(folder ${path} DIRECTORY)
file(GLOB abseil ${folder}/libabsl_*.a)

set(parts)
foreach(part IN LISTS PROFTRACE_PARTS)
  list(APPEND parts $<TARGET_FILE:proftrace_${part}>)
endforeach()

add_executable(proftrace_static
  $<TARGET_OBJECTS:proftrace>
  ${PROJECT_SOURCE_DIR}/exporters/sinks/gzip_sink_zlib.cc
  ${PROJECT_SOURCE_DIR}/userspace/fleet_sources/gzip_member_zlib.cc)
target_include_directories(proftrace_static PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(proftrace_static PRIVATE proftrace_warnings proftrace_hardening)
foreach(part IN LISTS PROFTRACE_PARTS)
  add_dependencies(proftrace_static proftrace_${part})
endforeach()
target_link_options(proftrace_static PRIVATE -static-pie -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
# A fifth of the file is relocations otherwise. The C library's start applies them since glibc 2.36.
include(CheckLinkerFlag)
check_linker_flag(CXX -Wl,-z,pack-relative-relocs PROFTRACE_HAS_PACKED_RELOCATIONS)
if(PROFTRACE_HAS_PACKED_RELOCATIONS)
  target_link_options(proftrace_static PRIVATE -Wl,-z,pack-relative-relocs)
endif()
# One group, as the parts need each other, too. The two sources above come first, so that no archive's member is taken in their place.
target_link_libraries(proftrace_static PRIVATE -Wl,--start-group ${parts} ${archives} ${abseil} -Wl,--end-group)
set_target_properties(proftrace_static PROPERTIES
  LINK_DEPENDS "${parts}" OUTPUT_NAME proftrace RUNTIME_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/static)

# What is in the program that is not ours, for the list of its licences (scripts/pack-release.py): archives, and headers with code.
set(contents ${archives} ${path} ${CLI11_INCLUDE_DIR}/CLI/CLI.hpp)
get_target_property(folder nlohmann_json::nlohmann_json INTERFACE_INCLUDE_DIRECTORIES)
list(GET folder 0 folder)
list(APPEND contents ${folder}/nlohmann/json.hpp)
foreach(name IN ITEMS libstdc++.a libgcc.a libc.a)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=${name} OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE)
  list(APPEND contents ${path})
endforeach()
list(JOIN contents "\n" contents)
file(WRITE ${CMAKE_BINARY_DIR}/static_contents.txt "${contents}\n")
