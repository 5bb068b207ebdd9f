// Records of samples to the tables of the Timeline. Not thread-safe.
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

// A sample whose thread is known by its number alone.
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
  uint32_t frame = 0;  // the innermost one; 0 = nothing could be read
};

class SampleDecoder {
 public:
  // Takes a PT_SAMPLE, PT_SAMPLE_FUNCTION, PT_SAMPLE_FRAME or PT_WAKER, with its smallest size at
  // least. False when its contents are impossible.
  bool OnRecord(std::span<const std::byte> record);

  // At the end. `paths_of`: a process's folders of modules (Target::python_paths).
  struct Tables {
    std::vector<SampleFunction> functions;
    std::vector<SampleFrame> frames;
    std::vector<DecodedSample> samples;
    std::vector<DecodedWaker> wakers;
    // How many functions and frames came when there were kMostNames and kMostPaths.
    uint64_t other_functions = 0;
    uint64_t other_frames = 0;
  };
  Tables TakeTables(const std::function<std::vector<std::string>(Pid)>& paths_of);

 private:
  bool OnSample(const abi::pt_sample_record& record);
  bool OnFunction(const abi::pt_sample_function_record& record, size_t room);
  bool OnFrame(const abi::pt_sample_frame_record& record);
  bool OnWaker(const abi::pt_waker_record& record);
  // Returns the function that stands for all that came too late, and makes it.
  uint32_t OtherFunction();
  // Returns the frame with that id; 0 where it did not come: its block was lost. Where there are
  // too many, one that is not known is one of those that are not kept.
  uint32_t FrameOf(uint32_t id) const;

  Tables tables_{{}, std::vector<SampleFrame>(1), {}, {}, 0, 0};
  std::optional<uint32_t> other_function_;
  uint32_t other_frame_ = 0;                                  // 0 = there is none
  absl::flat_hash_map<uint32_t, uint32_t> function_numbers_;  // by id
  size_t text_bytes_ = 0;                                     // of functions
  absl::flat_hash_map<uint32_t, uint32_t> frame_numbers_;     // by id
};

}  // namespace proftrace
