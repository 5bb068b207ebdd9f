#include "symbols/plan/python_reading.h"

#include <string_view>
#include <utility>

#include "symbols/plan/target_worker.h"
#include "symbols/process/cache_bytes.h"
#include "symbols/process/process_maps.h"
#include "symbols/process/process_memory.h"
#include "symbols/python/python_paths.h"
#include "symbols/python/python_state_place.h"
#include "symbols/python/python_waits.h"

namespace proftrace {
namespace {

// The worker's limit: twice the time that the search for the interpreter may take.
constexpr int64_t kLongestPythonS = 2 * kLongestPythonSearchNs / 1'000'000'000 + 5;
constexpr int64_t kLongestLocksS = 10;
constexpr size_t kLongestVersion = 64;
constexpr size_t kMostPythonPaths = size_t{1} << 16;

void PutStatus(const absl::Status& status, CacheWriter* out) {
  out->Number(static_cast<uint32_t>(status.code()));
  out->Text(std::string_view(status.message().data(), status.message().size()));
}

absl::Status TakeStatus(CacheReader* in) {
  const uint32_t code = in->Number<uint32_t>();
  return absl::Status(static_cast<absl::StatusCode>(code), in->Text());
}

absl::StatusOr<PythonReading> ReadPythonHere(Pid pid) {
  const ProcessMemory memory(pid);
  const absl::StatusOr<std::vector<Mapping>> mappings = ReadMaps(pid);
  if (!mappings.ok()) return mappings.status();
  absl::StatusOr<PythonRuntime> runtime = FindPythonRuntime(pid, memory, GroupByFile(*mappings));
  if (!runtime.ok()) return runtime.status();
  PythonReading reading;
  reading.runtime = *std::move(runtime);
  reading.state_place = FindPythonStatePlace(memory, reading.runtime);
  // Samples use the place even where jumps cannot.
  reading.runtime.layout.stack.state_place =
      reading.state_place.ok() ? static_cast<int16_t>(*reading.state_place)
                               : FindKeptPythonState(memory, reading.runtime.layout);
  reading.gil = FindPythonGil(memory, reading.runtime);
  reading.paths = ReadPythonPaths(pid, memory, reading.runtime);
  return reading;
}

std::string EncodePython(const absl::StatusOr<PythonReading>& reading) {
  CacheWriter out;
  PutStatus(reading.status(), &out);
  if (!reading.ok()) return out.Take();
  const PythonRuntime& runtime = reading->runtime;
  out.Text(BytesOfPlain(runtime.layout));
  out.Text(runtime.version);
  out.Text(runtime.file);
  out.Number(runtime.address);
  out.Number(runtime.interpreters);
  out.Number(runtime.main_interpreter);
  out.Number(reading->gil);
  PutStatus(reading->state_place.status(), &out);
  out.Number(static_cast<uint32_t>(reading->state_place.ok() ? *reading->state_place : 0));
  out.Number(static_cast<uint32_t>(reading->paths.size()));
  for (const std::string& path : reading->paths) out.Text(path);
  return out.Take();
}

absl::StatusOr<PythonReading> DecodePython(std::string_view bytes) {
  const absl::Status wrong = absl::DataLossError("what was read of its Python is none");
  CacheReader in(bytes);
  absl::Status status = TakeStatus(&in);
  if (!in.ok()) return wrong;
  if (!status.ok()) return status;
  PythonReading reading;
  PythonRuntime& runtime = reading.runtime;
  const bool is_layout = TakePlain(in.Text(), &runtime.layout);
  runtime.version = in.Text();
  runtime.file = in.Text();
  runtime.address = in.Number<uint64_t>();
  runtime.interpreters = in.Number<uint32_t>();
  runtime.main_interpreter = in.Number<uint64_t>();
  reading.gil = in.Number<uint64_t>();
  status = TakeStatus(&in);
  const auto place = static_cast<int32_t>(in.Number<uint32_t>());
  if (place < -kMostStatePlace || place > kMostStatePlace) return wrong;
  if (status.ok()) {
    reading.state_place = place;
  } else {
    reading.state_place = std::move(status);
  }
  const uint32_t paths = in.Number<uint32_t>();
  for (uint32_t i = 0; i < paths && in.ok(); ++i) reading.paths.push_back(in.Text());
  if (!is_layout || !IsUsable(runtime.layout) || runtime.version.size() > kLongestVersion ||
      paths > kMostPythonPaths || !in.ok() || !in.at_end()) {
    return wrong;
  }
  return reading;
}

}  // namespace

absl::StatusOr<PythonReading> ReadPython(Pid pid) {
  const absl::StatusOr<std::string> bytes = ReadInWorker(
      pid, kLongestPythonS,
      [pid]() -> absl::StatusOr<std::string> { return EncodePython(ReadPythonHere(pid)); });
  if (!bytes.ok()) return bytes.status();
  return DecodePython(*bytes);
}

std::vector<abi::pt_python_lock> FindPythonLocks(Pid pid, const PythonReading& python,
                                                 const std::vector<abi::pt_begun_wait>& waits) {
  if (waits.empty()) return {};
  const absl::StatusOr<std::string> bytes =
      ReadInWorker(pid, kLongestLocksS, [&]() -> absl::StatusOr<std::string> {
        const ProcessMemory memory(pid);
        std::string locks;
        for (const abi::pt_begun_wait& wait : waits) {
          const PythonLayout& layout = python.runtime.layout;
          locks += static_cast<char>('0' + AwaitedPythonLock(memory, layout, python.gil, wait));
        }
        return locks;
      });
  if (!bytes.ok() || bytes->size() != waits.size()) return {};
  std::vector<abi::pt_python_lock> found;
  for (const char lock : *bytes) {
    // The worker's bytes are checked, because a hostile target may have chosen them.
    const bool is_one = lock >= '0' && lock <= '0' + abi::PT_PYTHON_GIL;
    found.push_back(is_one ? static_cast<abi::pt_python_lock>(lock - '0') : abi::PT_PYTHON_NO_LOCK);
  }
  return found;
}

}  // namespace proftrace
