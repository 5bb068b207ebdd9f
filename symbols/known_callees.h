// What functions do that the code which makes rows calls, as far as following its values needs it:
// of libstdc++ and c10, by their mangled names.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace proftrace {

// c10::Symbol::toQualString() const: the text of a number that is kept in 32 bits.
bool IsSymbolText(std::string_view callee);

// A text that is made from another one: which argument holds that, and how.
enum class StringSource : uint8_t { kNone, kString, kCharacters, kPointer };
// The name of a row as RecordFunction takes it, made by a function of its own in code that was not
// optimised: std::variant<std::string_view, …>.
StringSource SourceOfVariant(std::string_view callee);
StringSource SourceOfString(std::string_view callee);

// Whether it is a function of std::string, or one that takes, gives back or copies memory for it.
bool IsOfStrings(std::string_view callee);

// How many bytes behind its argument what the function returns lies: std::forward, the operator* of
// std::optional (libstdc++ has the value first) and that of the c10::optional (torch before 2.2) of
// the profiler's callbacks, which has them behind a word with its flag. Nothing of other functions.
std::optional<int64_t> DistanceOfReturned(std::string_view callee);

// c10::SymInt's constructors of another one take its one word; only of a symbolic one it is
// another.
bool CopiesSymInt(std::string_view callee);

// Whether it is a function of std::optional<at::StepCallbacks>, or of c10's.
bool IsOfCallbacks(std::string_view callee);

// Whether it takes all but the object that it is a member of by const: a vector's constructor from
// a list.
bool ChangesItselfOnly(std::string_view callee);

// How many bytes the function may change from the address of an object on that it gets: of a member
// of a class which rows' names lie beside, that class's size.
int64_t ObjectBytes(std::string_view callee);

}  // namespace proftrace
