#include "userspace/base/demangle.h"

#include <cxxabi.h>

#include <algorithm>
#include <csetjmp>
#include <cstddef>
#include <cstdlib>
#include <memory>

#if defined(PROFTRACE_BOUNDED_DEMANGLER)
// GCC's demangler as libstdc++ has it, which hands its output over piece by piece
// (libiberty/cp-demangle.c). Its shared library does not export it.
extern "C" int __gcclibcxx_demangle_callback(const char* mangled,
                                             void (*take)(const char*, size_t, void*),
                                             void* opaque);
#endif

namespace proftrace {
namespace {

// Parts that refer to parts double with each letter: what is made to be long would take all memory.
// Torch's names have up to 20000 bytes, demangled.
constexpr size_t kMostDemangledBytes = size_t{64} << 10;
// The demangler's own memory, on the stack, is some hundred times that.
constexpr size_t kMostMangledBytes = size_t{16} << 10;

#if defined(PROFTRACE_BOUNDED_DEMANGLER)

struct Output {
  std::string text;
  std::jmp_buf too_long;
};

void Take(const char* piece, size_t bytes, void* opaque) {
  auto* output = static_cast<Output*>(opaque);
  // It cannot be told to stop, and what it has is on the stack: nothing is lost with that.
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
  // Each reference doubles the name at most.
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
