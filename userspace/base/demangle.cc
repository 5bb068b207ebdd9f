#include "userspace/base/demangle.h"

#include <cxxabi.h>

#include <algorithm>
#include <csetjmp>
#include <cstddef>
#include <cstdlib>
#include <memory>

#if defined(PROFTRACE_BOUNDED_DEMANGLER)
// GCC's demangler in libstdc++, which passes on its output piece by piece
// (libiberty/cp-demangle.c). The shared library does not export it.
extern "C" int __gcclibcxx_demangle_callback(const char* mangled,
                                             void (*take)(const char*, size_t, void*),
                                             void* opaque);
#endif

namespace proftrace {
namespace {

// The limit of a demangled name. A name whose parts refer to other parts can double with each
// letter, so that a hostile one would take all memory. Demangled names of torch have up to 20000
// bytes.
constexpr size_t kMostDemangledBytes = size_t{64} << 10;
// The limit of a mangled name. The demangler takes some hundred times as much memory on the stack.
constexpr size_t kMostMangledBytes = size_t{16} << 10;

#if defined(PROFTRACE_BOUNDED_DEMANGLER)

struct Output {
  std::string text;
  std::jmp_buf too_long;
};

void Take(const char* piece, size_t bytes, void* opaque) {
  auto* output = static_cast<Output*>(opaque);
  // The demangler cannot be told to stop. It has all its memory on the stack, so that leaving it by
  // longjmp() loses nothing.
  if (bytes > kMostDemangledBytes - output->text.size()) std::longjmp(output->too_long, 1);
  output->text.append(piece, bytes);
}

std::optional<std::string> DemangleAtMost(const std::string& mangled) {
  const auto output = std::make_unique<Output>();
  if (setjmp(output->too_long) != 0) return std::nullopt;
  if (__gcclibcxx_demangle_callback(mangled.c_str(), Take, output.get()) != 0) return std::nullopt;
  return std::move(output->text);
}

#else

std::optional<std::string> DemangleAtMost(const std::string& mangled) {
  // Each reference at most doubles the name.
  constexpr std::ptrdiff_t kMostReferences = 16;
  const auto is_reference = [](char c) { return c == 'S' || c == 'T'; };
  if (std::count_if(mangled.begin(), mangled.end(), is_reference) > kMostReferences) {
    return std::nullopt;
  }
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> demangled(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), &std::free);
  if (status != 0 || demangled == nullptr) return std::nullopt;
  std::string text(demangled.get());
  if (text.size() > kMostDemangledBytes) return std::nullopt;
  return text;
}

#endif

}  // namespace

std::optional<std::string> Demangle(const std::string& mangled) {
  if (mangled.size() > kMostMangledBytes) return std::nullopt;
  return DemangleAtMost(mangled);
}

}  // namespace proftrace
