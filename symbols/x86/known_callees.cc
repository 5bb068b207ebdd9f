#include "symbols/x86/known_callees.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "userspace/base/text.h"

namespace proftrace {
namespace {

// The size of the largest object that holds a name: a std::variant of std::string_view, or a
// std::string.
constexpr int64_t kObjectBytes = 64;

}  // namespace

bool IsSymbolText(std::string_view callee) { return callee == "_ZNK3c106Symbol12toQualStringEv"; }

StringSource SourceOfVariant(std::string_view callee) {
  constexpr std::string_view kVariants[] = {"_ZNSt7variantIJSt17basic_string_viewIc",
                                            "_ZN3c107variantIJSt17basic_string_viewIc"};
  const bool is_variant =
      std::any_of(std::begin(kVariants), std::end(kVariants),
                  [callee](std::string_view variant) { return callee.starts_with(variant); });
  if (!is_variant) return StringSource::kNone;
  if (Contains(callee, "C1IRA") || Contains(callee, "C2IRA")) return StringSource::kCharacters;
  const bool from_pointer = Contains(callee, "C1IRPKc") || Contains(callee, "C2IRPKc") ||
                            Contains(callee, "C1IRKPKc") || Contains(callee, "C2IRKPKc") ||
                            Contains(callee, "C1IPKc") || Contains(callee, "C2IPKc");
  return from_pointer ? StringSource::kPointer : StringSource::kNone;
}

StringSource SourceOfString(std::string_view callee) {
  if (callee == "_ZNSsC1ERKSs" || callee == "_ZNSsC2ERKSs") return StringSource::kString;
  if (callee == "_ZNSsC1EPKcRKSaIcE" || callee == "_ZNSsC2EPKcRKSaIcE") {
    return StringSource::kCharacters;
  }
  constexpr std::string_view kString = "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE";
  if (!callee.starts_with(kString)) return StringSource::kNone;
  callee.remove_prefix(kString.size());
  if (callee.starts_with("C1ERKS4_") || callee.starts_with("C2ERKS4_")) {
    return StringSource::kString;
  }
  const bool from_characters =
      callee.starts_with("C1EPKcRKS3_") || callee.starts_with("C2EPKcRKS3_") ||
      callee.starts_with("C1IS3_EEPKcRKS3_") || callee.starts_with("C2IS3_EEPKcRKS3_") ||
      callee.starts_with("12_M_construct");
  return from_characters ? StringSource::kCharacters : StringSource::kNone;
}

bool IsOfStrings(std::string_view callee) {
  return callee.starts_with("_ZNSt7__cxx1112basic_stringIc") || callee.starts_with("_ZNSs") ||
         callee.starts_with("_Znwm") || callee.starts_with("_ZdlPv") || callee == "memcpy";
}

std::optional<int64_t> DistanceOfReturned(std::string_view callee) {
  if (callee == "_ZNR3c108optionalIN2at13StepCallbacksEEdeEv") return 8;
  const bool is_same = callee.starts_with("_ZSt7forwardI") ||
                       (callee.starts_with("_ZNRSt8optionalI") && callee.ends_with("EdeEv"));
  return is_same ? std::optional<int64_t>(0) : std::nullopt;
}

bool IsOfCallbacks(std::string_view callee) {
  return Contains(callee, "8optionalIN2at13StepCallbacksEE");
}

bool ChangesItselfOnly(std::string_view callee) {
  return Contains(callee, "St16initializer_listI");
}

int64_t ObjectBytes(std::string_view callee) {
  constexpr std::pair<std::string_view, int64_t> kClasses[] = {
      {"_ZN3c1013intrusive_ptrI", 8},
      {"_ZN2at10TensorBase", 8},
      {"_ZN2at6Tensor", 8},
      {"_ZN3c106IValue", 16},
      {"_ZN3c108ArrayRefI", 16},
      {"_ZNSt6vectorI", 24},
      {"_ZNSaI", 8},
  };
  for (const auto& [name, bytes] : kClasses) {
    if (callee.starts_with(name)) return bytes;
  }
  return kObjectBytes;
}

bool CopiesSymInt(std::string_view callee) {
  return callee == "_ZN3c106SymIntC1ERKS0_" || callee == "_ZN3c106SymIntC2ERKS0_" ||
         callee == "_ZN3c106SymIntC1EOS0_" || callee == "_ZN3c106SymIntC2EOS0_";
}

}  // namespace proftrace
