// The first inputs of process_memory_fuzz: memory as a real process has it, in small.
#pragma once

#include <map>
#include <string>

namespace proftrace {

struct MemorySeed {
  char parser = 0;  // the first byte, which chooses the reader
  std::string bytes;
};

// By their names.
std::map<std::string, MemorySeed> MemorySeeds();

}  // namespace proftrace
