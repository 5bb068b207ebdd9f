// Lists the tables of a fleet's directory (docs/reference/fleet-tables.md), and finds their files.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace proftrace {

struct FleetTable {
  std::string_view name;
  // Whether `align` writes the table, as one file with times on the common clock.
  bool is_aligned = false;
  // The columns as "name TYPE, …", behind the columns that all tables have (kCommonColumns).
  // Further columns of a file can be asked for as well.
  std::string_view columns;
};

extern const std::string_view kCommonColumns;

const std::vector<FleetTable>& FleetTables();

// Returns the pattern by which DuckDB and Spark find the table's files, relative to the directory.
std::string FilesOf(const FleetTable& table);

// Returns whether the directory has a file of the table.
bool HasFiles(const std::string& directory, const FleetTable& table);

// Returns the size of the table's file; 0 for a table with one file per input.
uint64_t AlignedBytes(const std::string& directory, const FleetTable& table);

// Fails with kUsage where the directory is not that of a fleet, or has not been aligned.
absl::Status CheckFleetDirectory(const std::string& directory);

// Returns the statement of DuckDB that makes a view with the table's name. `directory` must have no
// character with a meaning in file patterns or quoted texts. Columns that files of older versions
// lack are NULL.
std::string TableViewSql(const FleetTable& table, const std::string& directory, bool has_files);

}  // namespace proftrace
