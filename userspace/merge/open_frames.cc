#include "userspace/merge/open_frames.h"

namespace proftrace {
namespace {

using Links = OpenFrame::Links;

void PutOnTop(OpenFrame* frame, Links OpenFrame::*links, OpenFrame** top) {
  (frame->*links).below = *top;
  if (*top != nullptr) ((*top)->*links).above = frame;
  *top = frame;
}

// Takes a frame out of a list. `top`: the pointer to the list's top frame.
void TakeOut(OpenFrame* frame, Links OpenFrame::*links, OpenFrame** top) {
  const Links around = frame->*links;
  if (around.below != nullptr) (around.below->*links).above = around.above;
  if (around.above != nullptr) {
    (around.above->*links).below = around.below;
  } else {
    *top = around.below;
  }
  frame->*links = {};
}

}  // namespace

size_t OpenFrames::IndexOf(EventType family) {
  if (family == EventType::kGuardBegin) return 1;
  return family == EventType::kFrameBegin ? 2 : 0;
}

OpenFrame* OpenFrames::Push(const OpenFrame& facts, bool is_below_top) {
  OpenFrame* frame = nullptr;
  if (unused_.empty()) {
    frame = &frames_.emplace_back(facts);
  } else {
    frame = unused_.back();
    unused_.pop_back();
    *frame = facts;
  }
  if (is_below_top) {
    OpenFrame* above = top_;
    frame->all = {above->all.below, above};
    if (above->all.below != nullptr) above->all.below->all.above = frame;
    above->all.below = frame;
  } else {
    PutOnTop(frame, &OpenFrame::all, &top_);
  }
  if (frame->span != kNoSpan) ++rows_;
  if (!frame->is_annotation) {
    calls_.push_back(frame);
    return frame;
  }
  frame->order = next_order_++;
  PutOnTop(frame, &OpenFrame::of_family, &family_tops_[IndexOf(frame->family)]);
  AddToHandles(frame);
  if (frame->object != 0) AddToObjects(frame);
  return frame;
}

void OpenFrames::Remove(OpenFrame* frame) {
  if (frame->is_annotation) {
    ForgetHandle(frame);
    if (frame->is_in_objects) {
      const auto it = objects_.find({IndexOf(frame->family), frame->object});
      TakeOut(frame, &OpenFrame::of_object, &it->second);
      if (it->second == nullptr) objects_.erase(it);
    }
    TakeOut(frame, &OpenFrame::of_family, &family_tops_[IndexOf(frame->family)]);
  } else {
    calls_.pop_back();
  }
  if (frame->span != kNoSpan) --rows_;
  TakeOut(frame, &OpenFrame::all, &top_);
  unused_.push_back(frame);
}

OpenFrame OpenFrames::Take(OpenFrame* frame) {
  OpenFrame facts = *frame;
  Remove(frame);
  facts.all = facts.of_family = facts.of_handle = facts.of_object = {};
  facts.is_in_handles = facts.is_in_objects = false;
  return facts;
}

OpenFrame* OpenFrames::Find(const Chains& chains, const Key& key) {
  if (chains.empty()) return nullptr;
  const auto it = chains.find(key);
  return it == chains.end() ? nullptr : it->second;
}

OpenFrame* OpenFrames::WithHandle(EventType family, uint64_t handle) const {
  const size_t index = IndexOf(family);
  return handle == 0 ? without_handle_[index] : Find(handles_, {index, handle});
}

OpenFrame* OpenFrames::WithObject(EventType family, uint64_t object) const {
  return object == 0 ? nullptr : Find(objects_, {IndexOf(family), object});
}

void OpenFrames::AddToHandles(OpenFrame* frame) {
  const size_t index = IndexOf(frame->family);
  OpenFrame** top =
      frame->handle == 0 ? &without_handle_[index] : &handles_[{index, frame->handle}];
  PutOnTop(frame, &OpenFrame::of_handle, top);
  frame->is_in_handles = true;
}

void OpenFrames::AddToObjects(OpenFrame* frame) {
  PutOnTop(frame, &OpenFrame::of_object, &objects_[{IndexOf(frame->family), frame->object}]);
  frame->is_in_objects = true;
}

void OpenFrames::ForgetHandle(OpenFrame* frame) {
  if (!frame->is_in_handles) return;
  frame->is_in_handles = false;
  const size_t index = IndexOf(frame->family);
  if (frame->handle == 0) return TakeOut(frame, &OpenFrame::of_handle, &without_handle_[index]);
  const auto it = handles_.find({index, frame->handle});
  TakeOut(frame, &OpenFrame::of_handle, &it->second);
  if (it->second == nullptr) handles_.erase(it);
}

void OpenFrames::SetHandle(OpenFrame* frame, uint64_t handle) {
  ForgetHandle(frame);
  frame->handle = handle;
  AddToHandles(frame);
}

void OpenFrames::SetObject(OpenFrame* frame, uint64_t object) {
  frame->object = object;
  if (object != 0) AddToObjects(frame);
}

}  // namespace proftrace
