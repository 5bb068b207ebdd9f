#include "symbols/python/python_state_place.h"

#include <unistd.h>

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "symbols/python/python_stacks.h"

namespace proftrace {
namespace {

// The size of glibc's thread control block: its first data of threads ends before.
constexpr size_t kControlBlockBytes = 2304;
constexpr size_t kWords = kControlBlockBytes / 8;
// In front of each datum glibc keeps which use of its key it belongs to: odd, and not many.
constexpr uint64_t kMostUses = uint64_t{1} << 32;
constexpr int kTries = 64;  // threads begin and end meanwhile
constexpr size_t kComparedThreads = 256;
constexpr int kTriesOfMany = 4;
constexpr int kTriesOfVariables = 100;
constexpr useconds_t kBetweenTriesUs = 1000;
constexpr std::string_view kClearsLinkedFrames = "3.11.0";  // CPython's issue 99729
constexpr PythonLimits kAllThreads{.threads = 65536, .frames = 0};

// A thread may have a state in each interpreter.
using StatesOfThreads = std::map<uint64_t, std::set<uint64_t>>;  // by the control block

bool IsAlive(const std::array<uint64_t, kWords>& words, uint64_t block) {
  return words[0] == block && static_cast<uint32_t>(words[kPthreadTid / 8]) != 0;
}

// Offsets from the control block.
using Places = std::set<int32_t>;

// Where a thread keeps one of `states` with its thread-specific data.
Places PlacesInBlock(const std::array<uint64_t, kWords>& words, const std::set<uint64_t>& states) {
  Places places;
  for (size_t i = 1; i < words.size(); ++i) {
    const bool is_datum = (words[i - 1] & 1) != 0 && words[i - 1] < kMostUses;
    if (is_datum && states.contains(words[i])) places.insert(static_cast<int32_t>(i * 8));
  }
  return places;
}

// Where a thread keeps one of `states` in its thread-local variables: those of the program and of
// the libraries that it began with lie right in front of the control block.
Places PlacesBeforeBlock(const TargetMemory& memory, uint64_t block,
                         const std::set<uint64_t>& states) {
  std::vector<uint64_t> words(kMostStatePlace / 8);
  while (!words.empty() && !memory.Read(block - words.size() * 8, words.data(), words.size() * 8)) {
    words.resize(words.size() / 2);
  }
  Places places;
  for (size_t i = 0; i < words.size(); ++i) {
    if (!states.contains(words[i])) continue;
    places.insert(-static_cast<int32_t>((words.size() - i) * 8));
  }
  return places;
}

// Returns the places that are the same in all threads.
Places PlacesInAll(const TargetMemory& memory, uint32_t version, const StatesOfThreads& threads) {
  Places places;
  bool is_first = true;
  size_t compared = 0;
  for (const auto& [block, states] : threads) {
    // A subinterpreter keeps the state of a thread that has made it, and ended.
    std::array<uint64_t, kWords> words{};
    if (!memory.Read(block, words.data(), sizeof(words)) || !IsAlive(words, block)) continue;
    if (++compared > kComparedThreads) break;
    Places here = version < kPython315 ? PlacesInBlock(words, states)
                                       : PlacesBeforeBlock(memory, block, states);
    if (!is_first) std::erase_if(here, [&](int32_t place) { return !places.contains(place); });
    places = std::move(here);
    is_first = false;
  }
  return places;
}

StatesOfThreads ReadStates(const TargetMemory& memory, const PythonLayout& layout) {
  StatesOfThreads states;
  for (const PythonThread& thread : ReadPythonThreads(memory, layout, kAllThreads).threads) {
    if (thread.thread_id != 0) states[thread.thread_id].insert(thread.state);
  }
  return states;
}

// Another variable (_Py_tss_tstate) has the state while the thread runs Python, and none while it
// waits or computes without it: what is always the state is told apart in time.
int16_t PlaceOfVariable(const TargetMemory& memory, const PythonLayout& layout) {
  Places places;
  for (int i = 0; i < kTriesOfVariables; ++i) {
    if (places.size() > 1) usleep(kBetweenTriesUs);
    Places here = PlacesInAll(memory, layout.stack.version, ReadStates(memory, layout));
    // Threads begin and end meanwhile.
    if (here.empty()) continue;
    if (!places.empty()) {
      std::erase_if(here, [&](int32_t place) { return !places.contains(place); });
    }
    places = std::move(here);
    if (places.size() == 1) return static_cast<int16_t>(*places.begin());
  }
  return 0;
}

}  // namespace

int16_t FindKeptPythonState(const TargetMemory& memory, const PythonLayout& layout) {
  if (layout.stack.version >= kPython315) return PlaceOfVariable(memory, layout);
  for (int i = 0; i < kTries; ++i) {
    const StatesOfThreads states = ReadStates(memory, layout);
    const Places places = PlacesInAll(memory, layout.stack.version, states);
    // Others who keep it for themselves (pybind11) made their keys later than Python.
    if (!places.empty()) return static_cast<int16_t>(*places.begin());
    // Many threads take their time, and one that is just beginning is one of many.
    if (states.size() > kComparedThreads && i >= kTriesOfMany) break;
  }
  return 0;
}

absl::StatusOr<int32_t> FindPythonStatePlace(const TargetMemory& memory,
                                             const PythonRuntime& runtime) {
  if (memory.ReadWord(runtime.address + runtime.layout.finalizing) != 0U) {
    return absl::FailedPreconditionError("its Python is about to end");
  }
  if (runtime.version == kClearsLinkedFrames) {
    return absl::FailedPreconditionError(
        "Python 3.11.0 gives up what a frame holds before the frame is out of sight");
  }
  if (const int16_t place = FindKeptPythonState(memory, runtime.layout); place != 0) return place;
  return absl::FailedPreconditionError(
      runtime.layout.stack.version >= kPython315
          ? "where its threads keep their PyThreadState was not found, or not told apart from "
            "another place that looked the same: that is known of glibc"
          : "where its threads keep their PyThreadState was not found: that is known of glibc");
}

}  // namespace proftrace
