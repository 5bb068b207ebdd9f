// A made-up CPython in the memory of this process, for the recorder's own code.
#pragma once

#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "userspace/patch/patch_ring.h"

namespace proftrace {

inline uint64_t ControlBlock() {
  uint64_t block = 0;
  asm volatile("mov %%fs:0x10, %0" : "=r"(block));
  return block;
}

struct Object {
  alignas(16) std::array<uint64_t, 64> words{};
  uint64_t at() const { return reinterpret_cast<uint64_t>(this); }
  void SetText(size_t offset, const std::string& text) {
    std::memcpy(reinterpret_cast<char*>(words.data()) + offset, text.c_str(), text.size() + 1);
  }
};

// Types, code objects and frames that lie as CPython's could, for a thread of this process.
class Python {
 public:
  explicit Python(bool is_free_threaded = false) : head_(is_free_threaded ? 2 : 0) {
    EXPECT_EQ(pthread_key_create(&key_, nullptr), 0);
    facts_.layout.version = 0x030b;
    facts_.layout.thread_id = 16;
    facts_.layout.thread_frame = 24;
    facts_.layout.frame_bytes = 40;
    facts_.layout.frame_code = 0;
    facts_.layout.frame_previous = 8;
    facts_.layout.frame_instruction = 16;
    facts_.layout.frame_owner = 32;
    facts_.layout.owner_limit = 3;
    facts_.layout.frame_locals = 40;
    facts_.layout.code_file = 32;
    facts_.layout.code_name = 40;
    facts_.layout.code_first_line = 48;
    facts_.layout.code_arguments = 52;
    facts_.layout.code_lines = 56;
    facts_.layout.code_instructions = 64;
    facts_.layout.text_length = 16;
    facts_.layout.text_state = 32;
    facts_.layout.text_ascii = 40;
    facts_.layout.text_wide = 56;
    facts_.layout.bytes_length = 16;
    facts_.layout.bytes_data = 32;
    facts_.layout.cell_value = 16;
    facts_.finalizing = reinterpret_cast<uint64_t>(&finalizing);
    if (is_free_threaded) SetFreeThreaded();
    code_type_ = Type("code");
    module_type_ = Type("Linear");
    state_ = New();
    state_->words[2] = ControlBlock();
    SetState(state_->at());
    for (uint32_t offset = 8; offset < 2304; offset += 8) {
      uint64_t word = 0;
      std::memcpy(&word, reinterpret_cast<const void*>(ControlBlock() + offset), sizeof(word));
      if (word == state_->at()) facts_.state_offset = static_cast<int32_t>(offset);
    }
    EXPECT_NE(facts_.state_offset, 0);
  }
  ~Python() { pthread_key_delete(key_); }

  void SetState(uint64_t state) const {
    EXPECT_EQ(pthread_setspecific(key_, reinterpret_cast<const void*>(state)), 0);
  }
  Object* New() { return objects_.emplace_back(std::make_unique<Object>()).get(); }
  Object* Type(const std::string& name) {
    Object* type = New();
    Object* text = New();
    text->SetText(0, name);
    type->words[head_ + 3] = text->at();
    return type;
  }
  Object* Text(const std::string& text, bool is_compact = true) {
    Object* object = New();
    const uint64_t state = 1 << 2 | 1 << 6 | (is_compact ? 1 << 5 : 0);
    object->words[head_ + 2] = text.size();
    object->words[head_ + 4] = state << facts_.layout.text_shift;
    object->SetText(facts_.layout.text_ascii, text);
    return object;
  }
  Object* Code(const std::string& name, uint32_t arguments = 0) {
    Object* code = New();
    code->words[head_ + 1] = code_type_->at();
    code->words[head_ + 4] = Text("/job.py")->at();
    code->words[head_ + 5] = Text(name)->at();
    code->words[head_ + 6] = 12 | uint64_t{arguments} << 32;
    Object* lines = New();
    lines->words[head_ + 2] = 3;
    code->words[head_ + 7] = lines->at();
    return code;
  }
  // In front of the others: the innermost one. `copy`: of the code's instructions, that it runs.
  Object* Push(const Object* code, uint32_t copy = 0) {
    Object* frame = New();
    frame->words[0] = code->at();
    frame->words[1] = state_->words[3];
    frame->words[2] = code->at() + facts_.layout.code_instructions + 6;
    frame->words[4] = uint64_t{copy} << 32;
    state_->words[3] = frame->at();
    return frame;
  }
  void Pop() { state_->words[3] = reinterpret_cast<const Object*>(state_->words[3])->words[1]; }
  Object* Module() {
    Object* module = New();
    module->words[head_ + 1] = module_type_->at();
    return module;
  }
  Object* state() { return state_; }
  const PythonFacts& facts() const { return facts_; }

  uint64_t finalizing = 0;

 private:
  // All that lies behind an object's head lies further; a frame says which copy it runs.
  void SetFreeThreaded() {
    abi::pt_python_layout& layout = facts_.layout;
    layout.object_head = 16;
    for (uint16_t abi::pt_python_layout::*field :
         {&abi::pt_python_layout::code_file, &abi::pt_python_layout::code_name,
          &abi::pt_python_layout::code_first_line, &abi::pt_python_layout::code_arguments,
          &abi::pt_python_layout::code_lines, &abi::pt_python_layout::code_instructions,
          &abi::pt_python_layout::text_length, &abi::pt_python_layout::text_state,
          &abi::pt_python_layout::text_ascii, &abi::pt_python_layout::text_wide,
          &abi::pt_python_layout::bytes_length, &abi::pt_python_layout::bytes_data,
          &abi::pt_python_layout::cell_value}) {
      layout.*field = static_cast<uint16_t>(layout.*field + layout.object_head);
    }
    layout.text_shift = 6;
    layout.pointer_tags = 3;
    layout.code_copies = 96;
    layout.frame_copy = 36;
  }

  const size_t head_;  // how many words longer the head of an object is
  pthread_key_t key_ = 0;
  PythonFacts facts_;
  std::vector<std::unique_ptr<Object>> objects_;
  Object* code_type_ = nullptr;
  Object* module_type_ = nullptr;
  Object* state_ = nullptr;
};

}  // namespace proftrace
