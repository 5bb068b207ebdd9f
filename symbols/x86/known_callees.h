// Knows functions of libstdc++ and c10 by their mangled names, as far as it is needed to follow
// values in code that makes rows.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace proftrace {

// Whether the function is c10::Symbol::toQualString() const, which returns the text of a symbol's
// number of 32 bits.
bool IsSymbolText(std::string_view callee);

// The form in which a function that makes a text from another text gets that other text.
enum class StringSource : uint8_t { kNone, kString, kCharacters, kPointer };
// Classifies the functions that unoptimised code calls to make the name of a row as RecordFunction
// takes it: std::variant<std::string_view, …>.
StringSource SourceOfVariant(std::string_view callee);
StringSource SourceOfString(std::string_view callee);

// Whether the function belongs to std::string, or allocates, frees or copies memory for it.
bool IsOfStrings(std::string_view callee);

// Returns how many bytes behind its argument the function's result lies, for std::forward, the
// operator* of std::optional (libstdc++ has the value first) and the operator* of the c10::optional
// of the profiler's callbacks (torch before 2.2), which has the value behind a word with its flag.
// nullopt: it is another function.
std::optional<int64_t> DistanceOfReturned(std::string_view callee);

// Whether the function is a constructor of c10::SymInt from another one. It copies the one word of
// that object, unless the number is symbolic.
bool CopiesSymInt(std::string_view callee);

// Whether the function belongs to std::optional<at::StepCallbacks> or
// c10::optional<at::StepCallbacks>.
bool IsOfCallbacks(std::string_view callee);

// Whether the function changes only the object whose member it is, and takes all other arguments by
// const: a vector's constructor from a list.
bool ChangesItselfOnly(std::string_view callee);

// Returns how many bytes of an object the function may change whose address it gets. For a member
// of a class whose objects lie beside names of rows, that is the size of the class.
int64_t ObjectBytes(std::string_view callee);

}  // namespace proftrace
