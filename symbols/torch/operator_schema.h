// Reads the schemas (c10::FunctionSchema) of a live process's operators: their arguments and
// returns.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "symbols/probe_plan.h"
#include "symbols/process/interned_strings.h"
#include "symbols/process/process_memory.h"

namespace proftrace {

// The alias sets of an argument: "(a! -> b|*)".
struct AliasSets {
  std::vector<std::string> before;
  std::vector<std::string> after;
  bool is_write = false;
  std::vector<AliasSets> contained;  // the alias sets of a list's elements
};

struct SchemaArgument {
  std::string name;  // empty for most returns
  std::string type;  // as torch's Type::str() returns it: "Tensor", "int[]", "ScalarType?"
  bool is_optional = false;
  bool is_list = false;         // true for an optional list, too
  std::string element_type;     // of a list: "int"; else the type without the "?"
  std::optional<int32_t> size;  // N of "int[N]"
  bool is_keyword_only = false;
  std::optional<AliasSets> alias;
  std::optional<std::string> default_value;  // as the schema's text shows it: "None", "[1, 2]"
};

struct OperatorSchema {
  std::string name;  // "aten::add"
  std::string overload_name;
  std::vector<SchemaArgument> arguments;
  std::vector<SchemaArgument> returns;
  bool has_variable_arguments = false;
  bool has_variable_returns = false;
};

// Returns the same text as torch's str(schema): "aten::add.Tensor(Tensor self, Tensor other, *,
// Scalar alpha=1) -> Tensor".
std::string FormatSchema(const OperatorSchema& schema);

struct SchemaReading {
  // The schemas by the addresses of their OperatorDefs.
  absl::flat_hash_map<uint64_t, std::unique_ptr<const OperatorSchema>> schemas;
  uint32_t without_definition = 0;  // operators that have kernels but no schema
  // Operators whose schemas are not laid out as expected, and were left out
  uint32_t unreadable = 0;
  uint32_t bool_tag = 0;     // the number of c10::IValue's kind Bool, 0 = not known
  uint64_t tensor_type = 0;  // address of the one c10::TensorType, 0 = not known
  // Why no schema was read; empty where schemas were read.
  std::string refusal;
};

// Reads the schemas of `operators` (as ReadOperatorList gives them). The layout is that of 1.13 to
// 2.15 (OperatorEntry, FunctionSchema, Argument, AliasInfo). The form of strings and optionals is
// recognised by the operator's own name, which its schema repeats, and the numbers of default
// values' kinds by the arguments' types. If they are not recognised, nothing is read and `refusal`
// says so. `symbols`: the names of alias sets; null: operators with alias sets are unreadable.
SchemaReading ReadSchemas(const TargetMemory& memory, const std::vector<OperatorInfo>& operators,
                          bool old_abi, const InternedStrings* symbols);

}  // namespace proftrace
