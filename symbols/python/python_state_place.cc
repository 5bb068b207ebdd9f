#include "symbols/python/python_state_place.h"

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string_view>

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
constexpr std::string_view kClearsLinkedFrames = "3.11.0";  // CPython's issue 99729
constexpr PythonLimits kAllThreads{.threads = 65536, .frames = 0};

// A thread may have a state in each interpreter.
using StatesOfThreads = std::map<uint64_t, std::set<uint64_t>>;  // by the control block

bool IsAlive(const std::array<uint64_t, kWords>& words, uint64_t block) {
  return words[0] == block && static_cast<uint32_t>(words[kPthreadTid / 8]) != 0;
}

std::optional<uint32_t> PlaceInAll(const TargetMemory& memory, const StatesOfThreads& threads) {
  std::set<size_t> places;
  bool is_first = true;
  size_t compared = 0;
  for (const auto& [block, states] : threads) {
    // A subinterpreter keeps the state of a thread that has made it, and ended.
    std::array<uint64_t, kWords> words{};
    if (!memory.Read(block, words.data(), sizeof(words)) || !IsAlive(words, block)) continue;
    if (++compared > kComparedThreads) break;
    std::set<size_t> here;
    for (size_t i = 1; i < words.size(); ++i) {
      const bool is_datum = (words[i - 1] & 1) != 0 && words[i - 1] < kMostUses;
      if (is_datum && states.contains(words[i]) && (is_first || places.contains(i))) here.insert(i);
    }
    places = std::move(here);
    is_first = false;
  }
  if (places.empty()) return std::nullopt;
  // Others who keep it for themselves (pybind11) made their keys later than Python.
  return static_cast<uint32_t>(*places.begin() * 8);
}

}  // namespace

uint16_t FindKeptPythonState(const TargetMemory& memory, const PythonLayout& layout) {
  for (int i = 0; i < kTries; ++i) {
    const PythonThreads threads = ReadPythonThreads(memory, layout, kAllThreads);
    StatesOfThreads states;
    for (const PythonThread& thread : threads.threads) {
      if (thread.thread_id != 0) states[thread.thread_id].insert(thread.state);
    }
    if (const std::optional<uint32_t> place = PlaceInAll(memory, states)) {
      return static_cast<uint16_t>(*place);
    }
    // Many threads take their time, and one that is just beginning is one of many.
    if (states.size() > kComparedThreads && i >= kTriesOfMany) break;
  }
  return 0;
}

absl::StatusOr<uint32_t> FindPythonStatePlace(const TargetMemory& memory,
                                              const PythonRuntime& runtime) {
  if (memory.ReadWord(runtime.address + runtime.layout.finalizing) != 0U) {
    return absl::FailedPreconditionError("its Python is about to end");
  }
  if (runtime.version == kClearsLinkedFrames) {
    return absl::FailedPreconditionError(
        "Python 3.11.0 gives up what a frame holds before the frame is out of sight");
  }
  if (const uint16_t place = FindKeptPythonState(memory, runtime.layout); place != 0) return place;
  return absl::FailedPreconditionError(
      "where its threads keep their PyThreadState was not found: that is known of glibc");
}

}  // namespace proftrace
