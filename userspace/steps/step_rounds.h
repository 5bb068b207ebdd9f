// Splits a thread's items at markers, which come once or a fixed number of times in a round of the
// loop, and compares the segments between the markers by their contents.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "userspace/steps/step_item.h"

namespace proftrace {

// How often each symbol comes, on a logarithmic scale, so that a sequence of twice the length is
// still much alike. Several symbols share a bucket. Values that are fetched (kRead) are left out,
// because a step with logging counts as the same step.
using Signature = std::array<float, 64>;

Signature SignatureOf(std::span<const StepItem> items);

// Returns how alike two signatures are: 1 = the same, 0 = nothing in common; two empty ones are the
// same.
double Similarity(const Signature& a, const Signature& b);

// Returns which part of `typical` is missing in `other`, from 0 to 1.
double MissingPart(const Signature& typical, const Signature& other);

// Items (`begin`, `end`] of a vector: after the marker `begin` up to the marker `end`.
struct Segment {
  size_t begin = 0;
  size_t end = 0;
  Signature signature{};
  int64_t duration_ns = 0;  // from the end of one marker to the end of the next
  uint32_t loader_nexts = 0;
  uint32_t samples = 0;  // draws, and choices that are fetched
  uint32_t choices = 0;  // of `samples`: the choices
};

// Returns one segment between each two markers, in order. `markers`: ascending indices of `items`.
std::vector<Segment> SegmentsBetween(std::span<const StepItem> items,
                                     std::span<const size_t> markers);

// Returns whether each segment has the same backward pass. Then longer segments only have something
// more that needs no backward pass: an evaluation, a generation, logging. Returns false for several
// updates from the same batch, of which only some fetch it, although these have the same backward
// pass too.
bool HaveOneBackwardPass(std::span<const StepItem> items, const std::vector<Segment>& segments);

// Returns the items of the class, as markers.
std::vector<size_t> MarkersOfClass(std::span<const StepItem> items, ItemClass item_class);
// Returns a DataLoader's items that are followed by work. The last request, which only finds that
// there are no more batches, is left out.
std::vector<size_t> LoaderMarkers(std::span<const StepItem> items);
// Returns the last operator of each run of operators that write parameters after a backward pass,
// which is an optimizer without annotations.
std::vector<size_t> UpdateMarkers(std::span<const StepItem> items);
// Returns the items at which the sequence of symbols begins.
std::vector<size_t> SequenceMarkers(std::span<const StepItem> items,
                                    std::span<const uint32_t> sequence);

// A round does not end within an annotation that ends with it. EnclosureOf() looks for annotations
// that contain the item `marker` but neither `before` nor `after` (indices; nullopt: there is no
// such item), and that began at `earliest_ns` or later. It returns the first item of the outermost
// such annotation, and the first item behind that annotation; `marker` and `marker` + 1 where there
// is no such annotation.
struct Enclosure {
  size_t begin = 0;
  size_t end = 0;
};
Enclosure EnclosureOf(std::span<const StepItem> items, size_t marker, std::optional<size_t> before,
                      std::optional<size_t> after, int64_t earliest_ns);

// Returns the first item behind the annotations that contain `marker`, the last marker of a round.
// Annotations that also contain `next`, the marker after it, are left out of this. `round_ns`: an
// annotation that began long before the round is no evidence.
size_t BehindAnnotations(std::span<const StepItem> items, size_t marker, std::optional<size_t> next,
                         int64_t round_ns);

// Returns the median of `values`, which are reordered; 0 where there are none.
int64_t ReorderingMedian(std::vector<int64_t>& values);

}  // namespace proftrace
