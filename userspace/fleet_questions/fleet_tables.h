// The tables of a directory of a fleet (docs/reference/fleet-tables.md), and where their files are.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace proftrace {

struct FleetTable {
  std::string_view name;
  // Its times are on the common clock: `align` writes it, as one file.
  bool is_aligned = false;
  // "name TYPE" with commas between, behind the columns of all tables (kCommonColumns). What a
  // file has beside them can be asked for as well.
  std::string_view columns;
};

extern const std::string_view kCommonColumns;

const std::vector<FleetTable>& FleetTables();

// Returns the table's files as DuckDB and Spark find them, from the directory on.
std::string FilesOf(const FleetTable& table);

// Whether the directory has a file of the table.
bool HasFiles(const std::string& directory, const FleetTable& table);

// Returns the size of the table's file; 0 for a table that has a file an input.
uint64_t AlignedBytes(const std::string& directory, const FleetTable& table);

// Fails with kUsage where the directory is none of a fleet, or has not been aligned.
absl::Status CheckFleetDirectory(const std::string& directory);

// Returns DuckDB's statement that makes a view with the table's name. `directory` has no character
// that a pattern of files or a quoted text gives a meaning to. Files of an older version lack
// columns: these are NULL.
std::string TableViewSql(const FleetTable& table, const std::string& directory, bool has_files);

}  // namespace proftrace
