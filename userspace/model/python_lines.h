// Finds the line of a Python file that an instruction belongs to, by the table of its code object.
// The table comes from another process and may be damaged: any bytes are accepted, and a damaged
// table gives a wrong line or none.
//
// Sources of the three formats: CPython's Objects/lnotab_notes.txt (3.9: co_lnotab; 3.10:
// co_linetable) and Objects/locations.md (from 3.11 on: co_linetable).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace proftrace {

class PythonLines {
 public:
  // `version`: 0x030b is 3.11. `first_line`: co_firstlineno. The table is not needed afterwards.
  PythonLines(uint32_t version, int32_t first_line, std::span<const uint8_t> table);

  // Returns the line of `instruction`, a number in units of two bytes. A number that is negative as
  // an int32_t is that of a frame which has not begun: co_firstlineno. nullopt for an instruction
  // without a line, or where the table does not reach.
  std::optional<int32_t> LineOf(uint32_t instruction) const;

 private:
  struct Start {
    uint64_t byte = 0;  // the offset in the code from which `line` holds
    std::optional<int32_t> line;
  };

  void ReadLineIncrements(std::span<const uint8_t> table);  // 3.9
  void ReadLineRanges(std::span<const uint8_t> table);      // 3.10
  void ReadLocations(std::span<const uint8_t> table);       // from 3.11 on
  void Begin(uint64_t byte, std::optional<int64_t> line);

  int32_t first_line_;
  std::vector<Start> starts_;  // ascending
};

// Returns the line of a single instruction; nullopt where it has none.
std::optional<int32_t> PythonLine(uint32_t version, int32_t first_line,
                                  std::span<const uint8_t> table, uint32_t instruction);

}  // namespace proftrace
