#include <gtest/gtest.h>

#include <random>

#include "symbols/process/cached_memory.h"
#include "symbols/torch/operator_schema.h"
#include "symbols/torch/type_reader.h"
#include "tests/unit/symbols/fake_memory.h"

namespace proftrace {
namespace {

// How a torch build lays things out: 1.13 has optionals with the flag first, 2.1 and 2.5 have
// pre-C++11 strings and, up to 2.1, 8-byte reference counts.
struct Form {
  bool old_abi;
  bool flag_first;
  uint32_t bool_tag;
  uint64_t target_bytes;  // of an intrusive_ptr_target
};
constexpr Form kForms[] = {
    {false, true, 8, 24}, {true, false, 9, 24}, {true, false, 9, 16}, {false, false, 10, 16}};

// A Dispatcher's operators in made-up memory.
class FakeTorch {
 public:
  explicit FakeTorch(const Form& form) : form_(form) {}

  FakeMemory memory;

  uint64_t StringBytes() const { return form_.old_abi ? 8 : 32; }

  void PutText(uint64_t address, const std::string& text) {
    if (form_.old_abi) {
      memory.PutOldString(address, text);
    } else {
      memory.PutString(address, text);
    }
  }

  // An object whose run-time type information names `class_name`.
  uint64_t Type(const std::string& class_name, uint64_t bytes = 256) {
    const uint64_t type = memory.Allocate(bytes);
    const uint64_t typeinfo = memory.Allocate(16);
    const uint64_t vtable = memory.Allocate(16);
    const uint64_t name = memory.Allocate(64);
    const std::string mangled = "N3c10" + std::to_string(class_name.size()) + class_name + "E";
    memory.Put(name, mangled.c_str(), mangled.size() + 1);
    memory.PutWord(typeinfo + 8, name);
    memory.PutWord(vtable, typeinfo);
    memory.PutWord(type, vtable + 8);
    return type;
  }
  uint64_t List(uint64_t element) {
    const uint64_t type = Type("ListType");
    memory.PutWord(type + 32, element);
    return type;
  }
  uint64_t Optional(uint64_t element) {
    const uint64_t type = Type("OptionalType");
    memory.PutWord(type + 72, element);
    return type;
  }

  struct Value {
    uint32_t tag;
    uint64_t payload;
  };
  struct Argument {
    std::string name;
    uint64_t type;
    std::optional<Value> value = std::nullopt;
    std::optional<int32_t> size = std::nullopt;
    bool keyword_only = false;
    uint64_t alias = 0;
  };

  uint64_t Alias(std::vector<uint32_t> before, std::vector<uint32_t> after, bool is_write) {
    const uint64_t alias = memory.Allocate(144);
    PutSet(alias, before);
    PutSet(alias + 56, after);
    memory.PutWord(alias + 136, is_write ? 1 : 0);
    return alias;
  }

  uint64_t ListValue(const std::vector<Value>& values) {
    const uint64_t list = memory.Allocate(64);
    const uint64_t data = memory.Allocate(16 * values.size() + 1);
    memory.PutWord(list + 8, 0x0000000100000001);
    if (form_.target_bytes == 24) memory.PutWord(list + 8, 1);
    if (form_.target_bytes == 24) memory.PutWord(list + 16, 1);
    for (size_t i = 0; i < values.size(); ++i) {
      memory.PutWord(data + 16 * i, values[i].payload);
      memory.PutWord(data + 16 * i + 8, values[i].tag);
    }
    PutVector(list + form_.target_bytes, data, 16 * values.size());
    return list;
  }
  uint64_t StringValue(const std::string& text) {
    const uint64_t object = memory.Allocate(64);
    if (form_.target_bytes == 24) memory.PutWord(object + 16, 1);
    PutText(object + form_.target_bytes, text);
    return object;
  }

  // Adds an operator with a schema; `schema_name` is the name that the schema repeats.
  uint64_t Operator(const std::string& name, const std::string& overload,
                    const std::vector<Argument>& arguments, const std::vector<Argument>& returns,
                    const std::string& schema_name = "") {
    const uint64_t entry = memory.Allocate(512);
    PutText(entry, name);
    PutText(entry + StringBytes(), overload);
    const uint64_t field = entry + 2 * StringBytes();
    const uint64_t schema = field + (form_.flag_first ? 8 : 0);
    const uint64_t flag = form_.flag_first ? field : schema + 3 * StringBytes() + 56;
    memory.PutWord(flag, 1);
    PutText(schema, schema_name.empty() ? name : schema_name);
    PutText(schema + StringBytes(), overload);
    const uint64_t vectors = schema + 2 * StringBytes();
    PutArguments(vectors, arguments);
    PutArguments(vectors + 24, returns);
    memory.PutWord(vectors + 48, 0);
    operators.push_back({entry, name, overload, ""});
    return entry;
  }

  // {namespace, qualified, unqualified} of each symbol, found by a vector in `data`.
  MemoryRange PutSymbols(const std::vector<std::string>& names) {
    const uint64_t entry_bytes = 8 + 2 * StringBytes();
    const uint64_t count = 1200;
    const uint64_t table = memory.Allocate(names.size() * entry_bytes);
    for (uint64_t i = 0; i < names.size(); ++i) {
      PutText(table + i * entry_bytes + 8, (i == 0 ? "namespaces::" : "alias::") + names[i]);
      PutText(table + i * entry_bytes + 8 + StringBytes(), names[i]);
    }
    const uint64_t data = memory.Allocate(4096);
    memory.PutWord(data + 40, 0x1234567890);
    PutVector(data + 1024, table, count * entry_bytes);
    return {data, 4096};
  }

  SchemaReading Read(const InternedStrings* symbols = nullptr) {
    return ReadSchemas(memory, operators, form_.old_abi, symbols);
  }
  std::string Text(const SchemaReading& reading, uint64_t address) const {
    const auto it = reading.schemas.find(address);
    return it == reading.schemas.end() ? "none" : FormatSchema(*it->second);
  }

  std::vector<OperatorInfo> operators;

 private:
  void PutVector(uint64_t address, uint64_t data, uint64_t bytes) {
    memory.PutWord(address, data);
    memory.PutWord(address + 8, data + bytes);
    memory.PutWord(address + 16, data + bytes);
  }
  void PutSet(uint64_t address, const std::vector<uint32_t>& symbols) {
    uint64_t next = 0;
    for (auto it = symbols.rbegin(); it != symbols.rend(); ++it) {
      const uint64_t node = memory.Allocate(24);
      memory.PutWord(node, next);
      memory.PutWord(node + 8, *it);
      next = node;
    }
    memory.PutWord(address + 16, next);
    memory.PutWord(address + 24, symbols.size());
  }
  void PutArguments(uint64_t vector, const std::vector<Argument>& arguments) {
    const uint64_t bytes = StringBytes() + 80;
    const uint64_t data = memory.Allocate(bytes * arguments.size() + 1);
    for (size_t i = 0; i < arguments.size(); ++i) {
      const Argument& argument = arguments[i];
      const uint64_t at = data + i * bytes;
      PutText(at, argument.name);
      const uint64_t fields = at + StringBytes();
      memory.PutWord(fields, argument.type);
      memory.PutWord(fields + 16, argument.type);
      if (argument.size) {
        const auto size = static_cast<uint64_t>(static_cast<uint32_t>(*argument.size));
        memory.PutWord(fields + 32, form_.flag_first ? size << 32 | 1 : uint64_t{1} << 32 | size);
      }
      if (argument.value) {
        const uint64_t value = fields + 40 + (form_.flag_first ? 8 : 0);
        memory.PutWord(value, argument.value->payload);
        memory.PutWord(value + 8, argument.value->tag);
        memory.PutWord(form_.flag_first ? fields + 40 : fields + 56, 1);
      }
      memory.PutWord(fields + 64, argument.alias);
      memory.PutWord(fields + 72, argument.keyword_only ? 1 : 0);
    }
    PutVector(vector, data, bytes * arguments.size());
  }

  Form form_;
};

// add.Tensor and out-variant-like operators in every form.
void FillTorch(const Form& form, FakeTorch* torch) {
  const uint64_t tensor = torch->Type("TensorType");
  const uint64_t boolean = torch->Type("BoolType");
  const uint64_t integer = torch->Type("IntType");
  const uint64_t real = torch->Type("FloatType");
  const uint64_t text = torch->Type("StringType");
  const uint64_t none_tag = 0;
  const auto bits = [](double value) {
    uint64_t word;
    std::memcpy(&word, &value, sizeof(word));
    return word;
  };
  const FakeTorch::Value yes{form.bool_tag, 1};
  const FakeTorch::Value one{5, 1};
  torch->Operator("aten::add", "out",
                  {{"self", tensor},
                   {"other", torch->Optional(tensor), FakeTorch::Value{0, none_tag}},
                   {"flag", boolean, yes, std::nullopt, true},
                   {"out", tensor, std::nullopt, std::nullopt, true, torch->Alias({1}, {1}, true)}},
                  {{"", tensor, std::nullopt, std::nullopt, false, torch->Alias({1}, {1}, true)}});
  torch->Operator(
      "aten::pool", "",
      {{"xs", torch->List(torch->Optional(tensor))},
       {"stride", torch->List(integer),
        FakeTorch::Value{form.bool_tag + 4, torch->ListValue({one, one})}, 2},
       {"pad", torch->List(integer),
        FakeTorch::Value{form.bool_tag + 4, torch->ListValue({one, {5, 2}})}, 2},
       {"eps", real, FakeTorch::Value{3, bits(1e-5)}},
       {"scale", real, FakeTorch::Value{3, bits(2.0)}},
       {"mode", text,
        FakeTorch::Value{form.bool_tag + 2, torch->StringValue("it's a \"long\" name\n")}}},
      {{"a", tensor, std::nullopt, std::nullopt, false, torch->Alias({1}, {2, 3}, false)},
       {"b", torch->List(integer)}});
}

TEST(OperatorSchemaTest, ReadsEveryForm) {
  for (const Form& form : kForms) {
    FakeTorch torch(form);
    FillTorch(form, &torch);
    const MemoryRange data = torch.PutSymbols({"prim", "a", "b", "*"});
    const auto symbols = InternedStrings::Find(torch.memory, data, form.old_abi);
    ASSERT_TRUE(symbols.has_value());
    const SchemaReading reading = torch.Read(&*symbols);
    EXPECT_EQ(reading.refusal, "");
    EXPECT_EQ(reading.unreadable, 0u);
    EXPECT_EQ(torch.Text(reading, torch.operators[0].address),
              "aten::add.out(Tensor self, Tensor? other=None, *, bool flag=True, Tensor(a!) out) "
              "-> Tensor(a!)");
    EXPECT_EQ(torch.Text(reading, torch.operators[1].address),
              "aten::pool(Tensor?[] xs, int[2] stride=1, int[2] pad=[1, 2], float "
              "eps=1.0000000000000001e-05, float scale=2., str mode=\"it\\'s a \\\"long\\\" "
              "name\\n\") -> (Tensor(a -> b|*) a, int[] b)");
    const OperatorSchema& schema = *reading.schemas.at(torch.operators[1].address);
    EXPECT_TRUE(schema.arguments[0].is_list);
    EXPECT_EQ(schema.arguments[0].element_type, "Tensor?");
    EXPECT_EQ(schema.arguments[1].size, 2);
    EXPECT_FALSE(schema.arguments[1].is_optional);
    EXPECT_FALSE(schema.arguments[1].is_keyword_only);
  }
}

TEST(OperatorSchemaTest, WithoutTheNamesOfAliasSetsTheirOperatorsAreLeftOut) {
  FakeTorch torch(kForms[3]);
  FillTorch(kForms[3], &torch);
  torch.Operator("aten::relu", "",
                 {{"self", torch.Type("TensorType")},
                  {"flag", torch.Type("BoolType"), FakeTorch::Value{10, 0}}},
                 {});
  const SchemaReading reading = torch.Read();
  EXPECT_EQ(reading.unreadable, 2u);
  EXPECT_EQ(reading.schemas.size(), 1u);
  EXPECT_EQ(torch.Text(reading, torch.operators[2].address),
            "aten::relu(Tensor self, bool flag=False) -> ()");
}

TEST(OperatorSchemaTest, ASchemaOfAnotherNameIsAnUnknownLayout) {
  FakeTorch torch(kForms[3]);
  torch.Operator("aten::add", "", {}, {}, "aten::sub");
  const SchemaReading reading = torch.Read();
  EXPECT_TRUE(reading.schemas.empty());
  EXPECT_NE(reading.refusal, "");
}

TEST(OperatorSchemaTest, KindsThatDisagreeWithTheTypesAreAnUnknownLayout) {
  for (const uint32_t tag : {3u, 7u, 11u}) {
    FakeTorch torch(kForms[3]);
    torch.Operator("aten::add", "", {{"flag", torch.Type("BoolType"), FakeTorch::Value{tag, 1}}},
                   {});
    EXPECT_NE(torch.Read().refusal, "") << tag;
  }
  FakeTorch torch(kForms[3]);
  torch.Operator("aten::add", "", {{"n", torch.Type("IntType"), FakeTorch::Value{6, 1}}}, {});
  EXPECT_NE(torch.Read().refusal, "");
}

TEST(OperatorSchemaTest, AnUnknownTypeLeavesOutItsOperator) {
  FakeTorch torch(kForms[3]);
  const FakeTorch::Value yes{10, 1};
  torch.Operator("aten::one", "", {{"b", torch.Type("BoolType"), yes}}, {});
  torch.Operator("aten::two", "", {{"x", torch.Type("QuantumType")}}, {});
  torch.Operator("aten::three", "", {{"x", 0x10}}, {});
  // A list of itself.
  const uint64_t list = torch.List(0x10);
  torch.memory.PutWord(list + 32, list);
  torch.Operator("aten::four", "", {{"x", list}}, {});
  const SchemaReading reading = torch.Read();
  EXPECT_EQ(reading.refusal, "");
  EXPECT_EQ(reading.schemas.size(), 1u);
  EXPECT_EQ(reading.unreadable, 3u);
}

TEST(OperatorSchemaTest, DamagedMemoryEndsInFewerSchemasNeverInACrash) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const Form& form = kForms[round % 4];
    FakeTorch torch(form);
    FillTorch(form, &torch);
    const MemoryRange data = torch.PutSymbols({"prim", "a", "b", "*"});
    const uint64_t first = torch.operators[0].address & ~uint64_t{0xffff};
    for (int i = 0; i < 64; ++i) {
      const uint64_t words[] = {0, 1, ~uint64_t{0}, torch.operators[0].address, random()};
      const uint64_t at = first + random() % 0x8000 / 8 * 8;
      uint8_t byte;
      if (torch.memory.Read(at, &byte, 1)) torch.memory.PutWord(at, words[random() % 5]);
    }
    const auto symbols = InternedStrings::Find(torch.memory, data, form.old_abi);
    const SchemaReading reading = torch.Read(symbols ? &*symbols : nullptr);
    EXPECT_LE(reading.schemas.size() + reading.unreadable, 2u);
  }
}

TEST(InternedStringsTest, TheListIsFoundAgainWhereItWas) {
  for (const Form& form : kForms) {
    FakeTorch torch(form);
    const MemoryRange data = torch.PutSymbols({"prim", "a", "b", "*"});
    const auto found = InternedStrings::Find(torch.memory, data, form.old_abi);
    ASSERT_TRUE(found.has_value());
    const auto again = InternedStrings::At(torch.memory, found->place(), form.old_abi);
    ASSERT_TRUE(again.has_value());
    EXPECT_EQ(again->QualifiedName(0), "namespaces::prim");
    EXPECT_EQ(again->UnqualifiedName(1), "a");
    EXPECT_FALSE(again->QualifiedName(0xffffffff).has_value());
    EXPECT_FALSE(InternedStrings::At(torch.memory, found->place() + 8, form.old_abi).has_value());
    EXPECT_FALSE(InternedStrings::At(torch.memory, 8, form.old_abi).has_value());
  }
}

TEST(InternedStringsTest, AVectorOfOtherThingsIsNotTaken) {
  FakeTorch torch(kForms[3]);
  const MemoryRange data = torch.PutSymbols({"aten", "a"});
  EXPECT_FALSE(InternedStrings::Find(torch.memory, data, false).has_value());
  EXPECT_FALSE(InternedStrings::Find(torch.memory, {0, 0}, false).has_value());
  EXPECT_FALSE(InternedStrings::Find(torch.memory, {data.address, ~uint64_t{0}}, false));
}

TEST(TypeReaderTest, NamesWhatTypesContain) {
  for (const Form& form : kForms) {
    FakeTorch torch(form);
    const uint64_t tensor = torch.Type("TensorType");
    const uint64_t text = torch.Type("StringType");
    const uint64_t pair = torch.memory.Allocate(32);
    torch.memory.PutWord(pair, text);
    torch.memory.PutWord(pair + 16, tensor);
    const uint64_t dictionary = torch.Type("DictType");
    torch.memory.PutWord(dictionary + 32, pair);
    torch.memory.PutWord(dictionary + 40, pair + 32);
    const uint64_t elements = 32 + 24 + 3 * torch.StringBytes() + 8;
    const uint64_t tuple = torch.Type("TupleType");
    torch.memory.PutWord(tuple + elements, pair);
    torch.memory.PutWord(tuple + elements + 8, pair + 32);
    const uint64_t future = torch.Type("FutureType");
    torch.memory.PutWord(future + 32, torch.List(torch.List(tuple)));
    const uint64_t object = torch.Type("ClassType");
    const uint64_t name = object + 32 + (form.flag_first ? 8 : 0) + 24;
    torch.PutText(name, "__torch__.my.Class");
    torch.memory.PutWord(form.flag_first ? object + 32 : name + 3 * torch.StringBytes(), 1);
    TypeReader types(torch.memory, form.old_abi, form.flag_first);
    EXPECT_EQ(types.Read(dictionary)->text, "Dict(str, Tensor)");
    EXPECT_EQ(types.Read(tuple)->text, "(str, Tensor)");
    EXPECT_EQ(types.Read(future)->text, "Future((str, Tensor)[][])");
    EXPECT_EQ(types.Read(object)->text, "__torch__.my.Class");
    EXPECT_EQ(types.Read(0x999999999), nullptr);
  }
}

TEST(CachedMemoryTest, KeepsWhatItReadAndPassesOnFailures) {
  FakeMemory memory;
  const uint64_t page = 0x200000;
  for (uint64_t at = page; at < page + 8192; at += 8) memory.PutWord(at, at);
  const CachedMemory cached(memory);
  EXPECT_EQ(cached.ReadWord(page + 4088), page + 4088);
  memory.PutWord(page + 8, 5);
  EXPECT_EQ(cached.ReadWord(page + 8), page + 8) << "as it was when the page was read";
  uint64_t two[2];
  ASSERT_TRUE(cached.Read(page + 4088, two, sizeof(two)));
  EXPECT_EQ(two[1], page + 4096);
  EXPECT_FALSE(cached.ReadWord(page + 8192).has_value());
  EXPECT_FALSE(cached.Read(~uint64_t{0} - 3, two, sizeof(two)));
  // A page that is not all there is read as far as asked.
  memory.PutWord(0x500000, 77);
  EXPECT_EQ(cached.ReadWord(0x500000), 77u);
}

}  // namespace
}  // namespace proftrace
