// Finds the function of native code in which a thread was in a part of the steps, where that is
// code that Python called, code inside of operators that is not PyTorch's, or where a thread has no
// Python.
#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "userspace/base/shown_text.h"
#include "userspace/base/text.h"
#include "userspace/why/rules.h"
#include "userspace/why/sample_looks.h"

namespace proftrace {
namespace {

struct NativeUse {
  int64_t count = 0;
  std::map<std::string, int64_t> functions;  // without those that have no name
  std::map<std::string, int64_t> running;    // the libraries that it called, where they ran
};

// Stands for the library of code that lies in memory of no file: a compiler in the job has made it.
constexpr std::string_view kMadeAtRunTime = "code made at run time";

// Looks at native functions: how many found which library, and which of its functions.
using LibraryLooks = std::map<std::string, NativeUse>;

// Counts a look at that function. Returns what is known of its library.
NativeUse& AddLook(const SampleFunction& function, LibraryLooks* libraries) {
  const std::string library = ShownText(LibraryOf(function));
  NativeUse& use = (*libraries)[library.empty() ? std::string(kMadeAtRunTime) : library];
  ++use.count;
  if (!function.name.empty()) ++use.functions[ShownText(function.name)];
  return use;
}

// Whether a function belongs to the interpreter, or to what calls other libraries for Python.
bool IsOfInterpreter(const SampleFunction& function) {
  const std::string name = LibraryOf(function);
  return name.starts_with("python") || name.starts_with("libpython") ||
         name.starts_with("_ctypes.") || name.starts_with("_cffi_backend.") ||
         name.starts_with("libffi.");
}

// The begins of the names of libraries that operators are made of, beside those of IsOfTorch(): the
// ones for linear algebra, threads and GPUs, and the languages' own.
constexpr std::string_view kOfOperators[] = {"libshm.",
                                             "libcaffe2",
                                             "libfbgemm",
                                             "libnnpack",
                                             "libXNNPACK",
                                             "libkineto",
                                             "libmkl",
                                             "libdnnl",
                                             "libmkldnn",
                                             "libopenblas",
                                             "libscipy_openblas",
                                             "libblas",
                                             "liblapack",
                                             "libgfortran",
                                             "libquadmath",
                                             "libsleef",
                                             "libgomp",
                                             "libiomp",
                                             "libomp.",
                                             "libtbb",
                                             "libcuda",
                                             "libcublas",
                                             "libcudnn",
                                             "libcufft",
                                             "libcurand",
                                             "libcusolver",
                                             "libcusparse",
                                             "libcupti",
                                             "libcufile",
                                             "libnvrtc",
                                             "libnvToolsExt",
                                             "libnvJitLink",
                                             "libnvshmem",
                                             "libnccl",
                                             "libmagma",
                                             "libstdc++",
                                             "libgcc_s",
                                             "libc.",
                                             "libc-",
                                             "libm.",
                                             "libm-",
                                             "libpthread",
                                             "libdl.",
                                             "librt.",
                                             "ld-linux",
                                             "ld-musl",
                                             "[vdso]"};

bool IsOfOperators(const std::string& library) {
  return std::any_of(std::begin(kOfOperators), std::end(kOfOperators),
                     [&](std::string_view begin) { return library.starts_with(begin); });
}

// Adds a look at a stack to the library that the innermost function of Python called, the
// interpreter itself left out, and to the innermost function of that library.
void AddNativeCallee(const Timeline& timeline, uint32_t innermost, LibraryLooks* libraries) {
  std::vector<const SampleFunction*> natives;  // the innermost first
  for (uint32_t frame = innermost; frame != 0; frame = timeline.sample_frames()[frame].parent) {
    const SampleFunction& function = timeline.sample_function(timeline.sample_frames()[frame]);
    if (function.kind == SampleFrameKind::kPython) break;
    const bool is_native = function.kind == SampleFrameKind::kNative;
    if (is_native && !IsOfInterpreter(function)) natives.push_back(&function);
  }
  if (natives.empty()) return;
  const std::string& file = natives.back()->file;
  const auto own = std::find_if(natives.begin(), natives.end(),
                                [&](const SampleFunction* native) { return native->file == file; });
  NativeUse& use = AddLook(**own, libraries);
  if (natives.front()->file != file) ++use.running[ShownText(LibraryOf(*natives.front()))];
}

// Returns the innermost native function of a stack; nullptr: Python is further inside, or there is
// none.
const SampleFunction* InmostNative(const Timeline& timeline, uint32_t innermost) {
  for (uint32_t frame = innermost; frame != 0; frame = timeline.sample_frames()[frame].parent) {
    const SampleFunction& function = timeline.sample_function(timeline.sample_frames()[frame]);
    if (function.kind == SampleFrameKind::kPython) return nullptr;
    if (function.kind == SampleFrameKind::kNative) return &function;
  }
  return nullptr;
}

// Returns the function that has more than half of the library's looks; empty: none has.
std::string MostlyIn(const NativeUse& use) {
  const auto function = LargestValue(use.functions);
  return function != use.functions.end() && 2 * function->second > use.count ? function->first : "";
}

// Returns "arena_search of libslowalloc.so", or the library alone where no function stands for it.
std::string PlaceIn(const std::string& library, const NativeUse& use) {
  const std::string function = MostlyIn(use);
  return function.empty() ? library : function + " of " + library;
}

LibraryLooks::const_iterator MostLooks(const LibraryLooks& libraries) {
  return std::max_element(libraries.begin(), libraries.end(), [](const auto& a, const auto& b) {
    return a.second.count < b.second.count;
  });
}

}  // namespace

double AddForeignNative(const Case& job, Finding* finding) {
  int64_t all = 0;
  LibraryLooks libraries;
  ForEachLook(job, TimesOf(job, StepPart::kOperators), [&](const Sample& sample) {
    ++all;
    // What a foreign function calls in libc counts as the foreign one's.
    for (uint32_t frame = sample.frame; frame != 0;
         frame = job.timeline.sample_frames()[frame].parent) {
      const SampleFunction& function =
          job.timeline.sample_function(job.timeline.sample_frames()[frame]);
      if (function.kind == SampleFrameKind::kPython) return;
      if (function.kind != SampleFrameKind::kNative) continue;
      const std::string library = LibraryOf(function);
      if (IsOfTorch(library) || IsOfInterpreter(function)) return;
      // Kernels that are made at run time, as oneDNN's, are in no file.
      if (library.empty() || IsOfOperators(library)) continue;
      AddLook(function, &libraries);
      return;
    }
  });
  const auto most = MostLooks(libraries);
  if (all < kFewestSamples || most == libraries.end() || 5 * most->second.count < all) return 0;
  finding->evidence.push_back(PercentText(most->second.count, all) +
                              " of the samples there are in " + PlaceIn(most->first, most->second) +
                              ", which is not PyTorch's, but is called inside of operators.");
  return static_cast<double>(most->second.count) / static_cast<double>(all);
}

bool AddNativePlace(const Case& job, const TimesByThread& threads, const std::string& who,
                    Finding* finding) {
  int64_t all = 0;
  LibraryLooks libraries;
  ForEachLook(job, threads, [&](const Sample& sample) {
    ++all;
    const SampleFunction* const function = InmostNative(job.timeline, sample.frame);
    if (function != nullptr) AddLook(*function, &libraries);
  });
  const auto most = MostLooks(libraries);
  if (all < kFewestSamples || most == libraries.end() || 5 * most->second.count < all) return false;
  finding->evidence.push_back(who + " runs no Python: it was in " +
                              PlaceIn(most->first, most->second) + " for " +
                              PercentText(most->second.count, all) + " of that, by samples.");
  return true;
}

NativeSource AddNative(const Case& job, StepPart part, Finding* finding) {
  int64_t all = 0;
  LibraryLooks libraries;
  ForEachLook(job, TimesOf(job, part), [&](const Sample& sample) {
    ++all;
    AddNativeCallee(job.timeline, sample.frame, &libraries);
  });
  const auto most = MostLooks(libraries);
  if (all < kFewestSamples || most == libraries.end()) return NativeSource::kNone;
  const auto& [library, use] = *most;
  if (2 * use.count < all) return NativeSource::kNone;
  std::string text = (IsOfTorch(library) ? "That is PyTorch's own code around operators: "
                                         : "That is native code, not Python: ") +
                     PercentText(use.count, all) + " of the samples are in " + library;
  const std::string function = MostlyIn(use);
  const auto running = LargestValue(use.running);
  if (running != use.running.end() && 2 * running->second > use.count) {
    text += ", most of them in " + running->first + ", which that calls";
  } else if (!function.empty()) {
    text += ", most of them in " + function;
  }
  finding->evidence.push_back(text + ".");
  if (Contains(function, "sched_yield")) {
    finding->evidence.emplace_back(kYields);
  }
  return IsOfTorch(library) ? NativeSource::kTorch : NativeSource::kOther;
}

}  // namespace proftrace
