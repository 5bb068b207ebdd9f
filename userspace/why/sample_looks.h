// The looks of samples at a thread, in times of the steps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "userspace/why/case.h"

namespace proftrace {

// The fewest samples that tell anything.
inline constexpr int64_t kFewestSamples = 10;

inline bool IsInTimes(const TimeIntervals& times, int64_t time_ns) {
  const auto after =
      std::upper_bound(times.begin(), times.end(), time_ns,
                       [](int64_t time, const auto& interval) { return time < interval.second; });
  return after != times.end() && after->first <= time_ns;
}

// Visits the sample of each look at each of the threads in its times.
template <typename Visitor>
void ForEachLook(const Case& job, const TimesByThread& threads, Visitor&& visit) {
  for (const Sample& sample : job.timeline.samples()) {
    const auto thread = threads.find(sample.thread);
    if (thread == threads.end()) continue;
    for (uint32_t i = 0; i < sample.count; ++i) {
      const int64_t time_ns = sample.time_ns + static_cast<int64_t>(i) * sample.period_ns;
      if (IsInTimes(thread->second, time_ns)) visit(sample);
    }
  }
}

// Visits the sample of each look at the driving thread in these times.
template <typename Visitor>
void ForEachLook(const Case& job, const TimeIntervals& times, Visitor&& visit) {
  ForEachLook(job, TimesByThread{{job.parts.thread, times}}, visit);
}

// Returns whether the thread waited for something in this look, instead of running.
inline bool IsWaiting(const Sample& sample) {
  return sample.state == SampleState::kSleeping || sample.state == SampleState::kUninterruptible;
}

// Returns whether a function of Python is the job's own, and not of an installed package or of
// Python's own library.
inline bool IsOwn(const SampleFunction& function) {
  return !function.is_installed && !function.file.starts_with("<");
}

// Returns the name of the file of a native function, without folders.
inline std::string LibraryOf(const SampleFunction& function) {
  return function.file.substr(function.file.rfind('/') + 1);
}

// Whether a library is a part of PyTorch: what it does outside of operators is between Python and
// these.
inline bool IsOfTorch(const std::string& library) {
  return library.starts_with("libtorch") || library.starts_with("libc10");
}

// Returns the frames of Python in a stack, the innermost first.
inline std::vector<const SampleFrame*> PythonFramesOf(const Timeline& timeline,
                                                      uint32_t innermost) {
  std::vector<const SampleFrame*> frames;
  for (uint32_t frame = innermost; frame != 0; frame = timeline.sample_frames()[frame].parent) {
    const SampleFrame& at = timeline.sample_frames()[frame];
    if (timeline.sample_function(at).kind == SampleFrameKind::kPython) frames.push_back(&at);
  }
  return frames;
}

inline TimeIntervals TimesOf(const Case& job, StepPart part) {
  TimeIntervals times;
  for (const PartMoment& moment : job.parts.moments) {
    if (moment.part == part) times.emplace_back(moment.start_ns, moment.end_ns);
  }
  return times;
}

}  // namespace proftrace
