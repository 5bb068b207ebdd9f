#include "symbols/plan/known_plans.h"

#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <vector>

#include "symbols/plan/plan_cache.h"
#include "symbols/process/cache_bytes.h"

extern "C" {
extern const char proftrace_known_plans[];
extern const char proftrace_known_plans_end[];
}

namespace proftrace {
namespace {

constexpr uint32_t kMagic = 0x4e4b5450;  // "PTKN"
// How many bytes of code around each place are compared. Places within kReadTogether bytes are read
// together.
constexpr uint64_t kBytesBefore = 16;
constexpr uint64_t kBytesBehind = 48;
constexpr uint64_t kReadTogether = 4096;
constexpr uint64_t kPlacesOfNothing = 256;
// The facts of a libtorch have 600 kB.
constexpr size_t kMostFactBytes = size_t{64} << 20;
constexpr int kCompressionLevel = 19;

struct Entry {
  uint32_t version = 0;
  std::string build_id;
  uint64_t file_bytes = 0;
  uint64_t code_digest = 0;
  std::string_view facts;  // compressed
  uint32_t fact_bytes = 0;
};

// Removes the entry at the begin of `rest` from it and returns it; nullopt: there is no entry.
std::optional<Entry> TakeEntry(std::string_view* rest) {
  CacheReader in(*rest);
  if (in.Number<uint32_t>() != kMagic) return std::nullopt;
  Entry entry;
  entry.version = in.Number<uint32_t>();
  entry.file_bytes = in.Number<uint64_t>();
  entry.code_digest = in.Number<uint64_t>();
  entry.fact_bytes = in.Number<uint32_t>();
  const auto compressed = in.Number<uint32_t>();
  entry.build_id = in.Text();
  const size_t head = 4 + 4 + 8 + 8 + 4 + 4 + 4 + entry.build_id.size();
  if (!in.ok() || rest->size() - head < compressed) return std::nullopt;
  entry.facts = rest->substr(head, compressed);
  rest->remove_prefix(head + compressed);
  return entry;
}

// Leaves only facts of code, which the digest covers. False: there are addresses of data that
// nobody looks up again, as ModuleReader does for the Dispatcher's.
bool LeaveFactsOfCode(ModuleFacts* facts) {
  facts->dispatcher_slot = 0;
  return facts->python_node_vtable == 0 && facts->undefined_tensor == 0;
}

// Returns the file offsets of code that the facts name, ascending. Facts that name none, as of a
// library that has nothing to probe, are bound to places all over the file.
std::vector<uint64_t> PlacesOf(const ModuleFacts& facts, uint64_t file_bytes) {
  std::vector<uint64_t> places = {facts.callbacks_entry, facts.callbacks_next};
  for (const ProbedFunction& function : facts.functions) {
    places.insert(places.end(), {function.begin, function.cost_probe, function.callbacks.offset});
    places.insert(places.end(), function.ends.begin(), function.ends.end());
  }
  for (const MadeRow& row : facts.rows) {
    for (const RowProbe& probe : row.probes) places.push_back(probe.offset);
  }
  for (const RowProbe& probe : facts.row_ends) places.push_back(probe.offset);
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  if (!places.empty() && places.front() == 0) places.erase(places.begin());
  if (!places.empty()) return places;
  for (uint64_t i = 0; i < kPlacesOfNothing; ++i) {
    places.push_back(file_bytes / kPlacesOfNothing * i);
  }
  return places;
}

// Returns a digest of these offsets and of the code around them; nullopt: the code could not be
// read.
std::optional<uint64_t> DigestOf(const HeldFile& file, const ModuleFacts& facts) {
  const auto file_bytes = static_cast<uint64_t>(file.state().bytes);
  const std::vector<uint64_t> places = PlacesOf(facts, file_bytes);
  std::string code;
  std::array<char, kReadTogether + kBytesBefore + kBytesBehind> buffer;
  for (size_t i = 0; i < places.size();) {
    const uint64_t begin = places[i] - std::min(places[i], kBytesBefore);
    size_t next = i;
    while (next < places.size() && places[next] - places[i] < kReadTogether) {
      code += BytesOfPlain(places[next]);
      ++next;
    }
    const uint64_t end = std::min(file_bytes, places[next - 1] + kBytesBehind);
    if (end < begin || file.ReadAt(begin, buffer.data(), end - begin) != end - begin) {
      return std::nullopt;
    }
    code.append(buffer.data(), end - begin);
    i = next;
  }
  return XXH3_64bits(code.data(), code.size());
}

}  // namespace

std::optional<ModuleFacts> FindPlanIn(std::string_view entries, const HeldFile& file,
                                      const std::string& build_id) {
  if (file.is_remote()) return std::nullopt;
  while (const std::optional<Entry> entry = TakeEntry(&entries)) {
    const auto file_bytes = static_cast<uint64_t>(file.state().bytes);
    if (entry->version != kAnalysisVersion || entry->file_bytes != file_bytes ||
        entry->fact_bytes > kMostFactBytes) {
      continue;
    }
    std::string bytes(entry->fact_bytes, '\0');
    const size_t made =
        ZSTD_decompress(bytes.data(), bytes.size(), entry->facts.data(), entry->facts.size());
    if (made != bytes.size()) continue;
    std::optional<ModuleFacts> facts = DecodeFacts(bytes, entry->build_id, file_bytes);
    if (!facts.has_value() || DigestOf(file, *facts) != entry->code_digest) continue;
    if (entry->build_id == build_id || LeaveFactsOfCode(&*facts)) return facts;
  }
  return std::nullopt;
}

std::optional<ModuleFacts> FindKnownPlan(const HeldFile& file, const std::string& build_id) {
  const auto bytes = static_cast<size_t>(proftrace_known_plans_end - proftrace_known_plans);
  return FindPlanIn({proftrace_known_plans, bytes}, file, build_id);
}

std::string MakeKnownPlan(const HeldFile& file, const std::string& build_id,
                          const ModuleFacts& facts) {
  const std::optional<uint64_t> digest = DigestOf(file, facts);
  if (!digest.has_value()) return "";
  const std::string bytes = EncodeFacts(build_id, facts);
  std::string packed(ZSTD_compressBound(bytes.size()), '\0');
  packed.resize(
      ZSTD_compress(packed.data(), packed.size(), bytes.data(), bytes.size(), kCompressionLevel));
  CacheWriter out;
  out.Number(kMagic);
  out.Number(kAnalysisVersion);
  out.Number(static_cast<uint64_t>(file.state().bytes));
  out.Number(*digest);
  out.Number(static_cast<uint32_t>(bytes.size()));
  out.Number(static_cast<uint32_t>(packed.size()));
  out.Text(build_id);
  return out.Take() + packed;
}

}  // namespace proftrace
