#include "userspace/capture/targets/target_words.h"

#include <cstring>
#include <utility>

#include "symbols/plan/planner.h"
#include "symbols/process/cache_bytes.h"
#include "symbols/process/interned_strings.h"
#include "userspace/base/demangle.h"

namespace proftrace {
namespace {

constexpr size_t kLongestWord = 1024;
// The offset of tp_name in PyTypeObject. PyVarObject is three words in every CPython with a GIL.
constexpr uint64_t kNameInType = 24;

enum class WordKind : uint8_t { kClassName, kPythonTypeName, kSymbol, kLastOperator, kScript };

CacheWriter QuestionFor(WordKind kind) {
  CacheWriter out;
  out.Number(static_cast<uint8_t>(kind));
  return out;
}

// Reads a C string of at most kLongestWord characters. It is read in pieces, because it may lie at
// the end of a mapping.
std::optional<std::string> ReadText(const TargetMemory& memory, uint64_t address) {
  std::string text;
  while (text.size() < kLongestWord) {
    char piece[64];
    // A piece ends at the next multiple of its size, so that it lies within a page, which can be
    // read as a whole or not at all.
    const size_t bytes = sizeof(piece) - (address + text.size()) % sizeof(piece);
    if (!memory.Read(address + text.size(), piece, bytes)) return std::nullopt;
    const char* end = static_cast<const char*>(std::memchr(piece, '\0', bytes));
    text.append(piece, end == nullptr ? bytes : static_cast<size_t>(end - piece));
    if (end != nullptr) return text;
  }
  return std::nullopt;
}

std::string ReadSymbol(const TargetMemory& memory, CacheReader* in) {
  SymbolList list;
  list.torch_data.address = in->Number<uint64_t>();
  list.torch_data.bytes = in->Number<uint64_t>();
  list.place = in->Number<uint64_t>();
  list.old_string_abi = in->Number<uint8_t>() != 0;
  const uint32_t symbol = in->Number<uint32_t>();
  const auto symbols = list.place != 0
                           ? InternedStrings::At(memory, list.place, list.old_string_abi)
                           : InternedStrings::Find(memory, list.torch_data, list.old_string_abi);
  const auto name = symbols ? symbols->QualifiedName(symbol) : std::nullopt;
  if (!name) return "";
  CacheWriter out;
  out.Number(symbols->place());
  out.Text(*name);
  return out.Take();
}

}  // namespace

std::optional<std::string> ReadClassName(const TargetMemory& memory, uint64_t vtable) {
  const std::optional<uint64_t> typeinfo = memory.ReadWord(vtable - 8);
  if (!typeinfo.has_value()) return std::nullopt;
  const std::optional<uint64_t> name_address = memory.ReadWord(*typeinfo + 8);
  if (!name_address.has_value()) return std::nullopt;
  std::optional<std::string> mangled = ReadText(memory, *name_address);
  if (!mangled.has_value() || mangled->empty()) return std::nullopt;
  // A star marks names that are only compared by address (anonymous namespaces).
  if (mangled->front() == '*') mangled->erase(0, 1);
  return Demangle(*mangled).value_or(*mangled);
}

std::optional<std::string> ReadPythonTypeName(const TargetMemory& memory, uint64_t type) {
  const std::optional<uint64_t> name_address = memory.ReadWord(type + kNameInType);
  if (!name_address.has_value()) return std::nullopt;
  return ReadText(memory, *name_address);
}

std::string AskClassName(uint64_t vtable) {
  CacheWriter out = QuestionFor(WordKind::kClassName);
  out.Number(vtable);
  return out.Take();
}

std::string AskPythonTypeName(uint64_t type) {
  CacheWriter out = QuestionFor(WordKind::kPythonTypeName);
  out.Number(type);
  return out.Take();
}

std::string AskSymbol(const SymbolList& list, uint32_t symbol) {
  CacheWriter out = QuestionFor(WordKind::kSymbol);
  out.Number(list.torch_data.address);
  out.Number(list.torch_data.bytes);
  out.Number(list.place);
  out.Number(static_cast<uint8_t>(list.old_string_abi ? 1 : 0));
  out.Number(symbol);
  return out.Take();
}

std::optional<SymbolText> SymbolOf(std::string_view answer) {
  CacheReader in(answer);
  SymbolText text;
  text.place = in.Number<uint64_t>();
  text.name = in.Text();
  return in.ok() ? std::optional(std::move(text)) : std::nullopt;
}

std::string AskScriptNames(const ScriptReading& reading, uint64_t code, uint64_t node) {
  CacheWriter out = QuestionFor(WordKind::kScript);
  out.Text(AskScript(reading, code, node));
  return out.Take();
}

uint64_t AskLastOperator(TargetReader* reader, Pid pid, uint32_t image, const ProbePlan& plan) {
  if (plan.dispatcher_slot == 0) return 0;
  CacheWriter out = QuestionFor(WordKind::kLastOperator);
  out.Number(plan.dispatcher_slot);
  out.Number(static_cast<uint8_t>(plan.old_string_abi ? 1 : 0));
  const std::string answer = reader->AskNow({pid, image, out.Take()});
  return CacheReader(answer).Number<uint64_t>();
}

std::string ReadTargetWords(Pid pid, std::string_view question) {
  const ProcessMemory memory(pid);
  CacheReader in(question);
  switch (static_cast<WordKind>(in.Number<uint8_t>())) {
    case WordKind::kClassName:
      return ReadClassName(memory, in.Number<uint64_t>()).value_or("");
    case WordKind::kPythonTypeName:
      return ReadPythonTypeName(memory, in.Number<uint64_t>()).value_or("");
    case WordKind::kSymbol:
      return ReadSymbol(memory, &in);
    case WordKind::kScript:
      return AnswerScript(memory, in.Text());
    case WordKind::kLastOperator: {
      const uint64_t slot = in.Number<uint64_t>();
      const uint64_t last = LastOperator(memory, slot, in.Number<uint8_t>() != 0);
      CacheWriter out;
      if (last != 0) out.Number(last);
      return out.Take();
    }
  }
  return "";
}

}  // namespace proftrace
