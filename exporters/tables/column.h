// The parts of tables. A table is a struct for its rows and a function ForEachCell() beside it,
// which is the only list of the table's columns: it calls a visitor with each column and the row's
// cell in it. Writers (CSV, SQLite) are visitors, so that the type of each cell is known when they
// are compiled.
//
// A cell is
//   an integer or a bool         a count, a number, nanoseconds, bytes
//   NsAsUs, Decimal              a number with decimals
//   std::string_view, string     a text as the job had it: any bytes
//   CellText, PathPieces           a text that is in the output's own form already (CellForm)
//   std::optional of these       nullopt: nothing was recorded
// An empty text says that nothing was recorded, too.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace proftrace {

struct Column {
  std::string_view name;
  std::string_view meaning;        // one or two sentences, for docs/reference/columns.md
  std::string_view sql_type = {};  // empty: the SQL type follows from the cells' type
};

// A time that is written as microseconds with three decimals.
struct NsAsUs {
  int64_t ns = 0;
};

// A number that is written with `decimals` decimals.
struct Decimal {
  double value = 0;
  int decimals = 0;
};

struct CellText {
  std::string_view text;
};

// A text in pieces, which are written one after the other.
struct PathPieces {
  static constexpr size_t kMostPieces = 8;

  void Add(std::string_view piece) {
    if (!piece.empty()) pieces[count++] = piece;
  }
  size_t size() const {
    size_t bytes = 0;
    for (size_t i = 0; i < count; ++i) bytes += pieces[i].size();
    return bytes;
  }

  std::array<std::string_view, kMostPieces> pieces;
  size_t count = 0;
};

enum class CellType { kInteger, kReal, kText };

namespace internal {

template <typename Cell>
struct Plain {
  using Type = Cell;
};
template <typename Cell>
struct Plain<std::optional<Cell>> {
  using Type = Cell;
};

}  // namespace internal

// The type of a cell without std::optional around it.
template <typename Cell>
using PlainCell = typename internal::Plain<std::remove_cvref_t<Cell>>::Type;

template <typename Cell>
constexpr CellType CellTypeOf() {
  if constexpr (std::integral<Cell>) {
    return CellType::kInteger;
  } else if constexpr (std::same_as<Cell, NsAsUs> || std::same_as<Cell, Decimal>) {
    return CellType::kReal;
  } else {
    return CellType::kText;
  }
}

// A column with the type of its cells, for writers.
struct TypedColumn {
  std::string_view name;
  CellType type;
  std::string_view sql_type;
};

template <typename Row>
std::vector<TypedColumn> ColumnsOf() {
  std::vector<TypedColumn> columns;
  ForEachCell(Row(), [&columns](const Column& column, const auto& cell) {
    const CellType type = CellTypeOf<PlainCell<decltype(cell)>>();
    std::string_view sql_type = column.sql_type;
    if (sql_type.empty()) {
      sql_type = type == CellType::kInteger ? "INTEGER" : type == CellType::kReal ? "REAL" : "TEXT";
    }
    columns.push_back({column.name, type, sql_type});
  });
  return columns;
}

}  // namespace proftrace
