#include "userspace/inject/injector.h"

#include <cpuid.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "symbols/process/process_maps.h"
#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/foreign_memory.h"
#include "userspace/inject/injection_code.h"
#include "userspace/inject/injection_region.h"

namespace proftrace {
namespace {

constexpr int kMostPlacings = 4;  // tries, because the job may take the free place first
constexpr size_t kMostFunctionBytes = size_t{64} << 10;
constexpr useconds_t kSafePointUs = 500;

// Returns the name of the library's mapping: the kernel adds "memfd:" and " (deleted)".
std::string MappedName(const std::string& library_name) {
  return "/memfd:" + library_name + " (deleted)";
}

bool Holds(int file, std::string_view content) {
  std::string there(content.size(), '\0');
  return pread(file, there.data(), there.size(), 0) == static_cast<ssize_t>(there.size()) &&
         there == content;
}

std::string Target(Pid pid) { return "PID " + std::to_string(Raw(pid)); }

// Returns the size of XSAVE's area for the state that this processor and kernel have switched on.
// 0: there is no XSAVE.
uint64_t XsaveBytes() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_OSXSAVE) == 0) return 0;
  return __get_cpuid_count(0xd, 0, &a, &b, &c, &d) == 0 ? 0 : b;
}

// Returns the state's letter ('R', 'S', 'T', …); 0: there is no such process.
char ProcessState(Pid pid) {
  const std::string status = ReadSmallFile("/proc/" + std::to_string(Raw(pid)) + "/status", 4096);
  const std::string_view state = StatusValue(status, "State");
  return state.empty() ? '\0' : state.front();
}

class Injection {
 public:
  Injection(const InjectionRequest& request, const WritableMemory& memory)
      : request_(request), memory_(memory) {}

  absl::StatusOr<InjectionReport> Run();
  // Reads what Run() reads first, and changes nothing.
  absl::Status Check();

 private:
  absl::Status LookAtProcess();
  absl::Status FindSites();
  bool IsAsInFile(const PatchSite& site) const;
  absl::Status RemoveLeftovers();
  // Returns the function in a copy of the library that an earlier injection loaded; 0: there is
  // none.
  uint64_t LoadedFunction() const;
  std::vector<uint8_t> MakeData(uint64_t loaded_function, int library_fd) const;
  absl::Status SendLibrary(int library_fd) const;
  // Takes the region away, and tries again where that fails once.
  static absl::Status TakeOut(InjectionRegion* region);
  // Waits until the work is done or its time is over; takes the region away in any case.
  absl::Status WaitForWork(InjectionRegion* region);

  const InjectionRequest& request_;
  const WritableMemory& memory_;
  std::vector<Mapping> mappings_;
  LoaderPlaces places_;
  std::vector<PatchSite> sites_;
  InjectionReport report_;
};

absl::Status Injection::FindSites() {
  const std::vector<MappedFile> files = GroupByFile(mappings_);
  std::string reasons;
  const auto pass_over = [&reasons](const SafePoint& point, const std::string& reason) {
    reasons += "; " + point.symbol + ": " + reason;
  };
  const std::vector<ExportedFunction> found =
      FindExportedFunctions(request_.pid, files, request_.safe_points);
  for (size_t i = 0; i < found.size(); ++i) {
    const SafePoint& point = request_.safe_points[i];
    const auto [address, bytes] = found[i];
    if (address == 0) continue;  // most processes have only some of them
    // The code is read from the file, because a breakpoint may hide the first instruction in the
    // process.
    std::vector<uint8_t> code(std::min<size_t>(bytes, kMostFunctionBytes));
    if (!ReadMappedFile(request_.pid, mappings_, address, code.data(), code.size())) {
      pass_over(point, "its file cannot be read");
      continue;
    }
    absl::StatusOr<PatchSite> site = FindPatchSite(code, address);
    if (site.ok() && !IsAsInFile(*site)) {
      site = absl::FailedPreconditionError("something else has changed its code");
    }
    if (!site.ok()) {
      pass_over(point, std::string(site.status().message()));
      continue;
    }
    // A site is taken if one region is within reach of it and all earlier ones, and each address
    // only once.
    std::vector<PatchSite> with = sites_;
    with.push_back(*site);
    const bool is_known = std::any_of(sites_.begin(), sites_.end(), [&](const PatchSite& known) {
      return known.address == site->address;
    });
    if (is_known) continue;
    if (FindRoom(mappings_, with) != 0) {
      sites_ = std::move(with);
    } else {
      pass_over(point, "there is no free memory near it");
    }
  }
  if (!sites_.empty()) return absl::OkStatus();
  return Fail(ExitCode::kHostUnfit, "no safe point was found in " + Target(request_.pid) +
                                        " (the entry of an operator or of a CUDA call)" + reasons);
}

bool Injection::IsAsInFile(const PatchSite& site) const {
  std::array<uint8_t, kMostPatchBytes> now{};
  return memory_.Read(site.address, now.data(), site.size) &&
         std::equal(now.begin(), now.begin() + site.size, site.original.begin());
}

absl::Status Injection::RemoveLeftovers() {
  absl::StatusOr<std::vector<InjectionRegion>> leftovers =
      InjectionRegion::FindLeftovers(request_.pid, memory_, mappings_, places_.system_calls);
  if (!leftovers.ok()) return leftovers.status();
  const int64_t deadline_ns = MonotonicNs() + request_.work_limit_ns;
  for (InjectionRegion& region : *leftovers) {
    // A thread may be doing the work of the leftover region just now.
    while (region.State().value_or(INJECT_IDLE) == INJECT_WORKING && MonotonicNs() < deadline_ns) {
      usleep(kSafePointUs);
    }
    absl::Status status = TakeOut(&region);
    if (!status.ok()) return status;
    ++report_.leftovers;
  }
  if (leftovers->empty()) return absl::OkStatus();
  absl::StatusOr<std::vector<Mapping>> mappings = ReadMaps(request_.pid);
  if (!mappings.ok()) return mappings.status();
  mappings_ = *std::move(mappings);
  return absl::OkStatus();
}

uint64_t Injection::LoadedFunction() const {
  const std::string name = MappedName(request_.library_name);
  for (const Mapping& mapping : mappings_) {
    if (mapping.path != name || !mapping.executable) continue;
    const std::vector<MappedFile> files = GroupByFile(mappings_);
    for (const MappedFile& file : files) {
      if (file.path == name) {
        return FindExportedFunctions(request_.pid, {file},
                                     {{file.path.substr(1), request_.function}})
            .front()
            .address;
      }
    }
  }
  return 0;
}

std::vector<uint8_t> Injection::MakeData(uint64_t loaded_function, int library_fd) const {
  std::vector<uint8_t> data(INJECT_PAGE_BYTES);
  const auto put = [&data](size_t offset, auto value) {
    std::memcpy(data.data() + offset, &value, sizeof(value));
  };
  put(INJECT_STATE, uint32_t{INJECT_ARMED});
  put(INJECT_DLOPEN, places_.dlopen);
  put(INJECT_DLSYM, places_.dlsym);
  put(INJECT_DLERROR, places_.dlerror);
  put(INJECT_ERRNO_LOCATION, places_.errno_location);
  put(INJECT_FUNCTION, loaded_function);
  put(INJECT_XSAVE_BYTES, XsaveBytes());
  put(INJECT_ALL_SIGNALS, ~uint64_t{0});
  // The path gets a spelling that no library was loaded by: the loader takes libraries of the same
  // path for the same library, and others may load theirs by descriptor, too.
  std::string path = "/proc/self/fd/";
  const std::string name = MappedName(request_.library_name);
  const auto prefix = name.substr(0, name.find('_') + 1);
  for (const Mapping& mapping : mappings_) {
    if (mapping.executable && mapping.path.starts_with(prefix)) path += "./";
  }
  path += "./" + std::to_string(library_fd);
  std::memcpy(data.data() + INJECT_LIBRARY_PATH, path.c_str(),
              std::min<size_t>(path.size() + 1, INJECT_FUNCTION_NAME - INJECT_LIBRARY_PATH));
  std::memcpy(data.data() + INJECT_FUNCTION_NAME, request_.function.c_str(),
              std::min<size_t>(request_.function.size() + 1, INJECT_ERROR - INJECT_FUNCTION_NAME));
  return data;
}

absl::Status Injection::SendLibrary(int library_fd) const {
  const UniqueFd file = CopyDescriptor(Raw(request_.pid), library_fd);
  if (!file.valid()) {
    return Fail(ExitCode::kNotPermitted, "a file of it cannot be shared: " + ErrnoText(errno));
  }
  // The seals keep everybody else from changing the library, and from taking pages of it away while
  // its code runs.
  constexpr int kKept = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  MemoryRules rules{.name = request_.library_name, .forbidden_seals = kKept};
  if (const std::string why = WhyNotMemory(file.get(), rules); !why.empty()) {
    return absl::UnavailableError("the memory that it made for the library " + why);
  }
  if (!WriteFully(file.get(), request_.library)) {
    return absl::UnavailableError("the library cannot be written: " + ErrnoText(errno));
  }
  rules = {.name = request_.library_name,
           .needed_seals = kKept,
           .least_bytes = request_.library.size(),
           .most_bytes = request_.library.size()};
  if (fcntl(file.get(), F_ADD_SEALS, kKept) != 0 || !WhyNotMemory(file.get(), rules).empty() ||
      !Holds(file.get(), request_.library)) {
    return absl::UnavailableError("it changed the library while that was written");
  }
  return absl::OkStatus();
}

// Tries a second time, because in the first try a call of the target's thread may have failed, or a
// thread may have stood in the way.
absl::Status Injection::TakeOut(InjectionRegion* region) {
  const absl::Status removed = region->Remove();
  return removed.ok() || region->address() == 0 ? removed : region->Remove();
}

absl::Status Injection::WaitForWork(InjectionRegion* region) {
  const int64_t begin_ns = MonotonicNs();
  int64_t deadline_ns = begin_ns + request_.arrival_limit_ns;
  bool is_working = false;
  absl::Status removed;
  uint32_t state = INJECT_IDLE;
  while (true) {
    const absl::StatusOr<uint32_t> now = region->State();
    if (!now.ok()) return now.status();
    if (*now == INJECT_WORKING && !is_working) {
      is_working = true;
      deadline_ns = MonotonicNs() + request_.work_limit_ns;
    }
    const bool is_cancelled = *now == INJECT_ARMED && request_.is_cancelled != nullptr &&
                              request_.is_cancelled->load(std::memory_order_relaxed);
    if (*now <= INJECT_WORKING && MonotonicNs() < deadline_ns && !is_cancelled) {
      usleep(kSafePointUs);
      continue;
    }
    removed = TakeOut(region);
    if (region->data().empty()) return removed;
    std::memcpy(&state, region->data().data() + INJECT_STATE, sizeof(state));
    // If a thread came by at the very last moment, its work is waited for.
    if (state != INJECT_WORKING || is_working) break;
  }
  std::memcpy(&report_.result, region->data().data() + INJECT_RESULT, sizeof(report_.result));
  switch (state) {
    case INJECT_DONE:
      return removed;
    case INJECT_FAILED: {
      const auto* error = reinterpret_cast<const char*>(region->data().data() + INJECT_ERROR);
      return Fail(ExitCode::kHostUnfit, "its loader did not take the library: " +
                                            std::string(error, strnlen(error, INJECT_ERROR_BYTES)));
    }
    case INJECT_ARMED:
      if (!removed.ok()) return removed;
      return absl::DeadlineExceededError("no thread of " + Target(request_.pid) +
                                         " came by an operator or a CUDA call in " +
                                         std::to_string((MonotonicNs() - begin_ns) / 1'000'000) +
                                         " ms: the job is idle, or waits");
    default:
      return removed.ok() ? absl::DeadlineExceededError("the library's start did not end in time")
                          : removed;
  }
}

absl::Status Injection::LookAtProcess() {
  absl::StatusOr<std::vector<Mapping>> mappings = ReadMaps(request_.pid);
  if (!mappings.ok()) return mappings.status();
  mappings_ = *std::move(mappings);
  switch (ProcessState(request_.pid)) {
    case 'T':
    case 't':
      return Fail(ExitCode::kNotPermitted,
                  Target(request_.pid) + " is stopped (by a signal or a debugger)");
    case '\0':
    case 'Z':
    case 'X':
      return Fail(ExitCode::kNoTarget,
                  Target(request_.pid) + (LivingThread(request_.pid) == request_.pid
                                              ? " has ended"
                                              : ": its first thread has ended"));
    default:
      break;
  }
  if (XsaveBytes() == 0) return Fail(ExitCode::kHostUnfit, "this processor has no XSAVE");
  absl::StatusOr<LoaderPlaces> places = FindLoaderPlaces(request_.pid, mappings_);
  if (!places.ok()) return places.status();
  places_ = *places;
  return absl::OkStatus();
}

absl::Status Injection::Check() {
  const absl::Status status = LookAtProcess();
  return status.ok() ? FindSites() : status;
}

absl::StatusOr<InjectionReport> Injection::Run() {
  const int64_t begin_ns = MonotonicNs();
  absl::Status status = LookAtProcess();
  if (status.ok()) status = RemoveLeftovers();
  if (status.ok()) status = FindSites();
  if (!status.ok()) return status;

  InjectionRegion region(request_.pid, memory_, places_.system_calls);
  const uint64_t loaded_function = LoadedFunction();
  for (int tries = 0; tries < kMostPlacings; ++tries) {
    status = region.Map(FindRoom(mappings_, sites_),
                        loaded_function == 0 ? request_.library_name : std::string());
    if (!absl::IsAborted(status)) break;
    absl::StatusOr<std::vector<Mapping>> now = ReadMaps(request_.pid);
    if (now.ok()) mappings_ = *std::move(now);
  }
  if (absl::IsAborted(status)) status = absl::UnavailableError(status.message());
  if (status.ok() && loaded_function == 0) status = SendLibrary(region.library_fd());
  if (status.ok()) {
    status = region.Fill(sites_, MakeData(loaded_function, region.library_fd()));
  }
  if (status.ok()) status = region.Patch();
  if (status.ok()) {
    status = WaitForWork(&region);
  } else if (const absl::Status removed = TakeOut(&region); !removed.ok()) {
    status = absl::Status(status.code(),
                          std::string(status.message()) + "; " + std::string(removed.message()));
  }
  if (!status.ok()) return status;
  report_.longest_stop_ns = region.stops().longest_stop_ns;
  report_.longest_wait_ns = region.stops().longest_wait_ns;
  report_.stops = region.stops().stops;
  report_.total_ns = MonotonicNs() - begin_ns;
  return report_;
}

}  // namespace

std::vector<SafePoint> TorchSafePoints() {
  return {
      {"libtorch_cpu.so", "_ZN2at27getStepCallbacksUnlessEmptyENS_11RecordScopeE"},
      {"libcudart.so", "cudaLaunchKernel"},
      {"libcudart.so", "cudaGraphLaunch"},
      {"libcudart.so", "cudaMemcpyAsync"},
      {"libcudart.so", "cudaStreamSynchronize"},
      {"libcuda.so", "cuLaunchKernel"},
      {"libcuda.so", "cuLaunchKernelEx"},
      {"libcuda.so", "cuGraphLaunch"},
  };
}

absl::Status CheckInjection(Pid pid) {
  const absl::StatusOr<WritableMemory> memory = WritableMemory::Open(pid);
  if (!memory.ok()) return memory.status();
  InjectionRequest request;
  request.pid = pid;
  return Injection(request, *memory).Check();
}

absl::StatusOr<InjectionReport> InjectLibrary(const InjectionRequest& request) {
  const absl::StatusOr<WritableMemory> memory = WritableMemory::Open(request.pid);
  if (!memory.ok()) return memory.status();
  return Injection(request, *memory).Run();
}

}  // namespace proftrace
