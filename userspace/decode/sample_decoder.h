// Turns records of samples into the tables of the Timeline. Not thread-safe.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bpf/abi/sample_records.h"
#include "userspace/model/sample.h"

namespace proftrace {

// A sample with its thread's number, because ThreadIndex is not known yet.
struct DecodedSample {
  Pid pid{};
  Tid tid{};
  Sample sample;
};

// The stack that a thread ran when it woke another one.
struct DecodedWaker {
  int64_t time_ns = 0;  // CLOCK_MONOTONIC
  Tid waker{};
  Tid woken{};
  uint32_t frame = 0;  // the innermost frame; 0 = nothing could be read
};

class SampleDecoder {
 public:
  // Takes a PT_SAMPLE, PT_SAMPLE_FUNCTION, PT_SAMPLE_FRAME or PT_WAKER, which has at least the size
  // that its kind needs. Returns false where its contents are impossible.
  bool OnRecord(std::span<const std::byte> record);

  // The decoded tables. TakeTables() is to be called when all records are decoded; `paths_of`
  // returns a process's folders of modules (Target::python_paths).
  struct Tables {
    std::vector<SampleFunction> functions;
    std::vector<SampleFrame> frames;
    std::vector<DecodedSample> samples;
    std::vector<DecodedWaker> wakers;
    // How many functions and frames came after the first kMostNames and kMostPaths.
    uint64_t other_functions = 0;
    uint64_t other_frames = 0;
  };
  Tables TakeTables(const std::function<std::vector<std::string>(Pid)>& paths_of);

 private:
  bool OnSample(const abi::pt_sample_record& record);
  bool OnFunction(const abi::pt_sample_function_record& record, size_t room);
  bool OnFrame(const abi::pt_sample_frame_record& record);
  bool OnWaker(const abi::pt_waker_record& record);
  // Returns the function that stands for all that came after the limit. Makes it at the first call.
  uint32_t OtherFunction();
  // Returns the frame with the id; 0: its record was lost. When the limit is reached, an unknown id
  // is taken for a frame that was not kept.
  uint32_t FrameOf(uint32_t id) const;

  Tables tables_{{}, std::vector<SampleFrame>(1), {}, {}, 0, 0};
  std::optional<uint32_t> other_function_;
  uint32_t other_frame_ = 0;                                  // 0 = there is none
  absl::flat_hash_map<uint32_t, uint32_t> function_numbers_;  // by id
  size_t text_bytes_ = 0;                                     // text of functions
  absl::flat_hash_map<uint32_t, uint32_t> frame_numbers_;     // by id
};

}  // namespace proftrace
