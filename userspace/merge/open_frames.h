// The rows that are open on one thread, from the outermost to the innermost one. Opening and
// closing a row take the same time however many rows are open, because annotations that never end
// can make a stack of any height. Not thread-safe.
//
// Calls end from the top: they are a stack of their own. Annotations and other rows with an object
// of their own end by the object's address, wherever they lie in the stack: rows with the same
// address are a chain.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "userspace/decode/event.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// Bytes allocated less bytes freed.
struct MemorySums {
  int64_t cpu = 0;
  int64_t device = 0;
};

struct OpenFrame {
  struct Links {
    OpenFrame* below = nullptr;
    OpenFrame* above = nullptr;
  };

  SpanId span = kNoSpan;         // kNoSpan: hidden, it only nests
  OpenFrame* visible = nullptr;  // this frame, else the nearest visible one below it
  OpenFrame* parent = nullptr;   // of the row, while it is open
  uint32_t open_children = 0;    // open rows whose parent this row is
  uint32_t sp = 0;               // the stack pointer at entry; unused by annotations
  uint16_t site = 0;
  bool is_annotation = false;            // or any other row that ends by its handle
  EventType family = EventType::kBegin;  // which kind of event began it
  bool is_dist_engine = false;           // kDistEngineName
  bool has_sequence = false;             // an item in the column `sequence`
  bool parent_is_over = false;           // the row outlived its parent, whose self time is settled
  uint64_t handle = 0;                   // annotations: 0 = not known yet
  uint64_t object = 0;  // frames of TorchScript's interpreter: their code; annotations: their
                        // guard, 0 = not known
  uint64_t number = 0;  // of TorchScript's frames: how many had begun on the thread
  int64_t children_ns = 0;
  int64_t thread_end_ns = 0;  // when its thread ended, for a row that outlives its thread
  // The innermost open operator and annotation up to this frame: see CallPlace.
  SpanId op = kNoSpan;
  SpanId annotation = kNoSpan;
  int64_t calls_end_ns = 0;       // the latest end of its direct children that AddCall() made
  MemorySums memory_at_begin;     // the thread's sums when the row began
  MemorySums memory_of_children;  // of its direct children that it encloses

  // The members from here on are for OpenFrames alone.
  Links all;
  Links of_family;
  Links of_handle;
  Links of_object;
  uint64_t order = 0;  // annotations: those above have a larger one
  bool is_in_handles = false;
  bool is_in_objects = false;
};

class OpenFrames {
 public:
  OpenFrames() = default;
  OpenFrames(const OpenFrames&) = delete;
  OpenFrames& operator=(const OpenFrames&) = delete;

  bool empty() const { return top_ == nullptr; }
  OpenFrame* top() const { return top_; }
  // Returns the innermost call; nullptr: there is none.
  OpenFrame* top_call() const { return calls_.empty() ? nullptr : calls_.back(); }
  bool has_rows() const { return rows_ > 0; }

  // Puts a frame on top. With `is_below_top`, puts it below the top frame: then it must be an
  // annotation, and the top frame a call.
  OpenFrame* Push(const OpenFrame& frame, bool is_below_top);
  // Removes a frame. A call may be removed only where it is the innermost one.
  void Remove(OpenFrame* frame);
  // Removes a frame and returns its facts, for another thread's Push().
  OpenFrame Take(OpenFrame* frame);

  // Return the innermost annotation of the family, and the innermost one with the handle or the
  // object; nullptr: there is none. The next ones with the same handle or object are
  // of_handle.below and of_object.below.
  OpenFrame* TopOf(EventType family) const { return family_tops_[IndexOf(family)]; }
  OpenFrame* WithHandle(EventType family, uint64_t handle) const;
  OpenFrame* WithObject(EventType family, uint64_t object) const;
  // Set the handle and the object of the innermost frame of its family.
  void SetHandle(OpenFrame* frame, uint64_t handle);
  void SetObject(OpenFrame* frame, uint64_t object);
  // Removes a frame from the chain of its handle, so that WithHandle() does not find it any more.
  void ForgetHandle(OpenFrame* frame);

 private:
  using Key = std::pair<uint32_t, uint64_t>;  // family, handle or object
  using Chains = absl::flat_hash_map<Key, OpenFrame*>;

  static constexpr size_t kFamilies = 3;
  static size_t IndexOf(EventType family);
  void AddToHandles(OpenFrame* frame);
  void AddToObjects(OpenFrame* frame);
  static OpenFrame* Find(const Chains& chains, const Key& key);

  std::deque<OpenFrame> frames_;
  std::vector<OpenFrame*> unused_;
  OpenFrame* top_ = nullptr;
  std::vector<OpenFrame*> calls_;
  OpenFrame* family_tops_[kFamilies] = {};
  OpenFrame* without_handle_[kFamilies] = {};  // the innermost with the handle 0
  Chains handles_;
  Chains objects_;
  uint64_t next_order_ = 1;
  size_t rows_ = 0;
};

}  // namespace proftrace
