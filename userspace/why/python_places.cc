// Finds the function of Python in which a thread was, in a part of the steps.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "userspace/aggregate/python_moments.h"
#include "userspace/aggregate/python_text.h"
#include "userspace/aggregate/sample_text.h"
#include "userspace/base/shown_text.h"
#include "userspace/why/rules.h"

namespace proftrace {
namespace {

// The fewest samples that tell anything.
constexpr int64_t kFewestSamples = 10;

struct PythonPlaces {
  std::map<std::string, int64_t> by_function;  // ns, or looks of samples
  int64_t all = 0;
  int64_t waiting = 0;  // of samples
  bool are_samples = false;
};

bool IsInTimes(const TimeIntervals& times, int64_t time_ns) {
  const auto after =
      std::upper_bound(times.begin(), times.end(), time_ns,
                       [](int64_t time, const auto& interval) { return time < interval.second; });
  return after != times.end() && after->first <= time_ns;
}

PythonPlaces PlacesOfSamples(const Case& job, ThreadIndex thread, const TimeIntervals& times) {
  PythonPlaces places;
  places.are_samples = true;
  for (const Sample& sample : job.timeline.samples()) {
    if (sample.thread != thread) continue;
    for (uint32_t i = 0; i < sample.count; ++i) {
      const int64_t time_ns = sample.time_ns + static_cast<int64_t>(i) * sample.period_ns;
      if (!IsInTimes(times, time_ns)) continue;
      ++places.all;
      if (sample.state == SampleState::kSleeping || sample.state == SampleState::kUninterruptible) {
        ++places.waiting;
      }
      for (uint32_t frame = sample.frame; frame != 0;) {
        const SampleFrame& at = job.timeline.sample_frames()[frame];
        if (job.timeline.sample_function(at).kind == SampleFrameKind::kPython) {
          ++places.by_function[ShownText(SampleLineText(job.timeline, at))];
          break;
        }
        frame = at.parent;
      }
    }
  }
  return places;
}

PythonPlaces PlacesOfStacks(const Case& job, ThreadIndex thread, const TimeIntervals& times) {
  PythonPlaces places;
  PythonMoments rows;
  const PythonRows& python = job.aggregates.python_rows;
  for (uint32_t i = 0; i < python.size(); ++i) {
    if (python.at(i).thread == thread) rows.OnRow(python.at(i));
  }
  const std::vector<PythonMoment> in_python = rows.Take();
  auto at = in_python.begin();
  for (const auto& [start_ns, end_ns] : times) {
    places.all += end_ns - start_ns;
    while (at != in_python.end() && at->end_ns <= start_ns) ++at;
    for (auto of = at; of != in_python.end() && of->start_ns < end_ns; ++of) {
      const int64_t ns = std::min(of->end_ns, end_ns) - std::max(of->start_ns, start_ns);
      places.by_function[ShownText(PythonFrameText(job.timeline, of->frame))] += ns;
    }
  }
  return places;
}

}  // namespace

PythonSource AddPython(const Case& job, StepPart part, Finding* finding) {
  TimeIntervals times;
  for (const PartMoment& moment : job.parts.moments) {
    if (moment.part == part) times.emplace_back(moment.start_ns, moment.end_ns);
  }
  return AddPython(job, job.parts.thread, times, "It", finding);
}

PythonSource AddPython(const Case& job, ThreadIndex thread, const TimeIntervals& times,
                       const std::string& who, Finding* finding) {
  PythonPlaces places = PlacesOfSamples(job, thread, times);
  if (places.all < kFewestSamples) places = PlacesOfStacks(job, thread, times);
  const auto most = LargestValue(places.by_function);
  if (most == places.by_function.end() || 10 * most->second < places.all)
    return PythonSource::kNone;
  const std::string share = PercentText(most->second, places.all);
  if (!places.are_samples) {
    finding->evidence.push_back("Operators around that time were called in " + most->first + " (" +
                                share + " of it). The function that took the time may be " +
                                "another one, which --sample 99Hz would show.");
    return PythonSource::kStacks;
  }
  finding->evidence.push_back(who + " was in " + most->first + " for " + share +
                              " of that, by samples.");
  if (!job.parts.has_kernel && 2 * places.waiting > places.all) {
    finding->evidence.push_back(PercentText(places.waiting, places.all) +
                                " of the samples there found it waiting, not running.");
  }
  return PythonSource::kSamples;
}

}  // namespace proftrace
