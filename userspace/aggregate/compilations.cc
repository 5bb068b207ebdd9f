#include "userspace/aggregate/compilations.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "userspace/aggregate/each_span.h"

namespace proftrace {
namespace {

constexpr std::string_view kDynamoLookup = "TorchDynamo Cache Lookup";
constexpr std::string_view kCompiledRegion = "Torch-Compiled Region: ";
// Existing code is run within microseconds, while the fastest compilations take tens of
// milliseconds.
constexpr int64_t kLeastCompilingNs = 1'000'000;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

}  // namespace

bool IsCompiledRegion(std::string_view name) { return name.starts_with(kCompiledRegion); }

std::vector<std::vector<Compilation>> FindCompilations(const Timeline& timeline) {
  std::vector<bool> is_region, is_lookup;
  for (const Label& label : timeline.labels()) {
    is_region.push_back(IsCompiledRegion(label.name));
    is_lookup.push_back(label.name == kDynamoLookup);
  }
  if (std::find(is_region.begin(), is_region.end(), true) == is_region.end()) return {};
  struct Thread {
    std::set<uint32_t> seen;  // versions that have run before
    int64_t looked_up_ns = kNever;
  };
  std::vector<Thread> threads(timeline.threads().size());
  std::vector<std::vector<Compilation>> found(threads.size());
  ForEachSpan(timeline, [&](SpanId, const Span& span) {
    if (span.is_apart) return;
    Thread& thread = threads[Raw(span.thread)];
    if (is_lookup[Raw(span.label)]) thread.looked_up_ns = span.end_ns();
    if (!is_region[Raw(span.label)] || !thread.seen.insert(Raw(span.label)).second) return;
    const int64_t start_ns = std::exchange(thread.looked_up_ns, kNever);
    if (start_ns > span.start_ns - kLeastCompilingNs) return;
    found[Raw(span.thread)].push_back({start_ns, span.start_ns, span.label});
  });
  return found;
}

bool IsCompiling(const std::vector<Compilation>& compilations, int64_t time_ns, size_t* over) {
  while (*over < compilations.size() && compilations[*over].end_ns <= time_ns) ++*over;
  return *over < compilations.size() && compilations[*over].start_ns <= time_ns;
}

}  // namespace proftrace
