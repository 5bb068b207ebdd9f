// The parts that a thread's items fall into: markers, which come once or a fixed number of times in
// a round of the loop, and the segments between them, compared by what they hold.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "userspace/steps/step_item.h"

namespace proftrace {

// How often each symbol comes, on a logarithmic scale: a sequence that is twice as long is still
// much the same. Symbols share buckets; values that are fetched (kRead) are left out, since a step
// with logging is the same step.
using Signature = std::array<float, 64>;

Signature SignatureOf(std::span<const StepItem> items);

// Returns how alike two signatures are: 1 = the same, 0 = nothing in common; two empty ones are the
// same.
double Similarity(const Signature& a, const Signature& b);

// Returns how much of `typical` is missing in `other`, 0 to 1.
double MissingPart(const Signature& typical, const Signature& other);

// Items (`begin`, `end`] of a vector: after the marker `begin` up to the marker `end`.
struct Segment {
  size_t begin = 0;
  size_t end = 0;
  Signature signature{};
  int64_t duration_ns = 0;  // from the end of one marker to the end of the next
  uint32_t loader_nexts = 0;
  uint32_t samples = 0;  // draws, and choices that are fetched
  uint32_t choices = 0;  // of these
};

// Returns one segment between each two markers, in order. `markers`: ascending indices of `items`.
std::vector<Segment> SegmentsBetween(std::span<const StepItem> items,
                                     std::span<const size_t> markers);

// Whether each segment has the same backward pass. Longer segments then have something added that
// needs none: an evaluation, a generation, logging. Several updates on one batch have it as well,
// where only some of them fetch it.
bool HaveOneBackwardPass(std::span<const StepItem> items, const std::vector<Segment>& segments);

// Markers by class.
std::vector<size_t> MarkersOfClass(std::span<const StepItem> items, ItemClass item_class);
// Returns a DataLoader's items that work follows: an item that only says that there is no more is
// left out.
std::vector<size_t> LoaderMarkers(std::span<const StepItem> items);
// Returns the last operator of each run that writes parameters after a backward pass: an optimizer
// without annotations.
std::vector<size_t> UpdateMarkers(std::span<const StepItem> items);
// Returns where the sequence of symbols begins.
std::vector<size_t> SequenceMarkers(std::span<const StepItem> items,
                                    std::span<const uint32_t> sequence);

// No round ends within an annotation that ends with it. EnclosureOf() looks at the annotations that
// hold the item `marker` and neither `before` nor `after` (indices; nullopt: there is no such
// item), and that began at `earliest_ns` or later. Returns the first item of the outermost one, and
// the first item behind it; `marker` and `marker` + 1 where there is no such annotation.
struct Enclosure {
  size_t begin = 0;
  size_t end = 0;
};
Enclosure EnclosureOf(std::span<const StepItem> items, size_t marker, std::optional<size_t> before,
                      std::optional<size_t> after, int64_t earliest_ns);

// Returns the first item that is in no annotation with `marker`, a round's last one, but for those
// that go on over `next`, the marker after it, if there is one. `round_ns`: an annotation that
// began long before the round is no evidence.
size_t BehindAnnotations(std::span<const StepItem> items, size_t marker, std::optional<size_t> next,
                         int64_t round_ns);

// Returns the middle of `values`, which are reordered; 0 of none.
int64_t ReorderingMedian(std::vector<int64_t>& values);

}  // namespace proftrace
