#include "symbols/torch/garbage_collector.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "symbols/elf/elf_file.h"
#include "symbols/elf/relocated_pointers.h"
#include "symbols/x86/call_scan.h"
#include "symbols/x86/instruction.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

constexpr std::string_view kCollectorText = "gc: collecting generation %d...\n";
// The most references to the text. A real file has one for each copy of the function.
constexpr size_t kMostTextReferences = 64;
constexpr size_t kMostCollectors = 64;
constexpr size_t kScannedChunkBytes = size_t{1} << 20;
constexpr uint8_t kCallOpcode = 0xe8;

// Returns the address of an instruction that puts the address of one of `texts` into a register and
// has its last four bytes at `at`: lea text(%rip) or, in programs at fixed addresses, mov $text.
std::optional<uint64_t> ReferenceAt(const uint8_t* at, uint64_t address,
                                    const std::vector<uint64_t>& texts) {
  uint32_t word;
  std::memcpy(&word, at, sizeof(word));
  const uint64_t end = address + sizeof(word);
  const uint64_t relative = end + static_cast<uint64_t>(int64_t{static_cast<int32_t>(word)});
  for (const uint64_t text : texts) {
    const bool is_lea = (at[-3] & 0xfb) == 0x48 && at[-2] == 0x8d && (at[-1] & 0xc7) == 0x05;
    if (relative == text && is_lea) return address - 3;
    if (word == text && (at[-1] & 0xf8) == 0xb8) return address - 1;
  }
  return std::nullopt;
}

std::vector<uint64_t> FindTextReferences(const ElfFile& file, const std::vector<uint64_t>& texts,
                                         const FunctionAnalysis& analysis) {
  constexpr size_t kBefore = 3;  // bytes of an instruction before its last four
  std::vector<uint64_t> found;
  std::vector<uint8_t> bytes(kScannedChunkBytes + kBefore + sizeof(uint32_t));
  for (const ElfSection* code : file.CodeSections(nullptr)) {
    for (uint64_t begin = 0; begin < code->size; begin += kScannedChunkBytes) {
      if (analysis.left_ns() < 0) return found;
      const uint64_t wanted = std::min<uint64_t>(bytes.size(), code->size - begin);
      const size_t count = file.ReadAddress(code->address + begin, bytes.data(), wanted);
      for (size_t i = kBefore; i + sizeof(uint32_t) <= count; ++i) {
        const auto place = ReferenceAt(bytes.data() + i, code->address + begin + i, texts);
        if (place && found.size() < kMostTextReferences) found.push_back(*place);
      }
    }
  }
  return found;
}

// Adds the function around `reference`, and functions that its code jumps into. The reference is
// mostly in a part that the compiler has split off, because it seldom runs.
void AddCandidates(const ModuleImage& image, uint64_t reference,
                   std::map<uint64_t, FunctionRange>* candidates) {
  const auto add = [&](uint64_t address) {
    const auto function = image.FunctionAt(address);
    const bool is_cold = function && Contains(function->name, ".cold");
    if (function && !is_cold && candidates->size() < kMostCollectors) {
      candidates->emplace(function->start, *function);
    }
    return function;
  };
  const auto part = add(reference);
  if (!part || part->end - part->start > kScannedChunkBytes) return;
  std::vector<uint8_t> bytes(part->end - part->start);
  const size_t count = image.ReadCode(part->start, bytes.data(), bytes.size());
  for (const Instruction& instruction : DecodeAll(bytes.data(), count, part->start)) {
    const bool is_jump = instruction.kind == InstructionKind::kJump ||
                         instruction.kind == InstructionKind::kConditionalJump;
    if (!is_jump || (instruction.target >= part->start && instruction.target < part->end)) continue;
    if (instruction.target != 0 && !image.IsPltStub(instruction.target)) add(instruction.target);
  }
}

// Returns those of the candidates that are called: functions are, their split-off parts are not.
std::set<uint64_t> CalledOnes(const ElfFile& file,
                              const std::map<uint64_t, FunctionRange>& candidates,
                              const FunctionAnalysis& analysis) {
  std::vector<uint64_t> starts;
  for (const auto& [start, range] : candidates) starts.push_back(start);
  std::set<uint64_t> called;
  for (const CallSite& site : FindCalls(file, starts, analysis.left_ns()).sites) {
    uint8_t opcode = 0;
    if (file.ReadAddress(site.address, &opcode, 1) == 1 && opcode == kCallOpcode) {
      called.insert(site.target);
    }
  }
  return called;
}

bool HasInstructionAt(const FlowGraph& graph, const std::vector<uint64_t>& places) {
  for (size_t i = 0; i < graph.size(); ++i) {
    const uint64_t address = graph.node(i).instruction.address;
    if (std::find(places.begin(), places.end(), address) != places.end()) return true;
  }
  return false;
}

}  // namespace

std::vector<FunctionRange> FindCollectors(const ModuleImage& image, FunctionAnalysis* analysis) {
  const ElfFile& file = image.file();
  const std::vector<uint64_t> texts = FindReadOnlyText(file, kCollectorText);
  if (texts.empty()) return {};
  const std::vector<uint64_t> references = FindTextReferences(file, texts, *analysis);
  std::map<uint64_t, FunctionRange> candidates;
  for (const uint64_t reference : references) AddCandidates(image, reference, &candidates);
  const std::set<uint64_t> called = CalledOnes(file, candidates, *analysis);
  std::vector<FunctionRange> collectors;
  for (const auto& [start, range] : candidates) {
    if (!called.contains(start)) continue;
    const auto graph = analysis->BuildGraph(range.start, range.end);
    if (graph.ok() && HasInstructionAt(*graph, references)) collectors.push_back(range);
  }
  return collectors;
}

}  // namespace proftrace
