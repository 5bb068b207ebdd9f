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

// The size of glibc's thread control block. The thread-specific data of its first keys lies inside.
constexpr size_t kControlBlockBytes = 2304;
constexpr size_t kWords = kControlBlockBytes / 8;
// In front of each datum, glibc keeps the number of times that its key was made or deleted. For a
// key in use, the number is odd and small.
constexpr uint64_t kMostUses = uint64_t{1} << 32;
constexpr int kTries = 64;  // several, because threads begin and end meanwhile
constexpr size_t kComparedThreads = 256;
constexpr int kTriesOfMany = 4;
constexpr int kTriesOfVariables = 100;
constexpr useconds_t kBetweenTriesUs = 1000;
constexpr std::string_view kClearsLinkedFrames = "3.11.0";  // CPython's issue 99729
constexpr PythonLimits kAllThreads{.threads = 65536, .frames = 0};

// The PyThreadStates of each thread, which may have one in each interpreter.
// By the address of the thread control block
using StatesOfThreads = std::map<uint64_t, std::set<uint64_t>>;

bool IsAlive(const std::array<uint64_t, kWords>& words, uint64_t block) {
  return words[0] == block && static_cast<uint32_t>(words[kPthreadTid / 8]) != 0;
}

// Offsets from the thread control block.
using Places = std::set<int32_t>;

// Returns where a thread keeps one of `states` in its thread-specific data.
Places PlacesInBlock(const std::array<uint64_t, kWords>& words, const std::set<uint64_t>& states) {
  Places places;
  for (size_t i = 1; i < words.size(); ++i) {
    const bool is_datum = (words[i - 1] & 1) != 0 && words[i - 1] < kMostUses;
    if (is_datum && states.contains(words[i])) places.insert(static_cast<int32_t>(i * 8));
  }
  return places;
}

// Returns where a thread keeps one of `states` in its thread-local variables. The variables of the
// program, and of the libraries with which it was started, lie right in front of the control block.
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
    // Threads that have ended are left out. A subinterpreter keeps the state of the thread that
    // made it even after that thread's end.
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

// Returns the place of the variable that always has the state; 0 = not found. Another variable
// (_Py_tss_tstate) has the state only while the thread runs Python, so that repeated looks tell the
// two apart.
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
    // Other libraries (pybind11) keep the state too, but have made their keys later than Python. So
    // the first place is Python's.
    if (!places.empty()) return static_cast<int16_t>(*places.begin());
    // With many threads each try takes long, and a thread that is just beginning is only one of
    // many, so that few tries are enough.
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
