// What functions of libstdc++ and c10 do, by their mangled names, as far as following the values of
// code that makes rows needs it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace proftrace {

// Whether it is c10::Symbol::toQualString() const: the text of a number that is kept in 32 bits.
bool IsSymbolText(std::string_view callee);

// In which form a function that makes a text from another one gets that other one.
enum class StringSource : uint8_t { kNone, kString, kCharacters, kPointer };
// Classifies the functions that unoptimised code calls to make the name of a row as RecordFunction
// takes it: std::variant<std::string_view, …>.
StringSource SourceOfVariant(std::string_view callee);
StringSource SourceOfString(std::string_view callee);

// Whether it is a function of std::string, or one that takes, gives back or copies memory for it.
bool IsOfStrings(std::string_view callee);

// Returns how many bytes behind its argument the function's result lies: std::forward, the
// operator* of std::optional (libstdc++ has the value first) and that of the c10::optional (torch
// before 2.2) of the profiler's callbacks, which has them behind a word with its flag. nullopt:
// another function.
std::optional<int64_t> DistanceOfReturned(std::string_view callee);

// Whether it is a constructor of c10::SymInt from another one, which takes over its one word; only
// for a symbolic number is the word another one.
bool CopiesSymInt(std::string_view callee);

// Whether it is a function of std::optional<at::StepCallbacks>, or of c10's.
bool IsOfCallbacks(std::string_view callee);

// Whether it takes everything by const except the object that it is a member of: a vector's
// constructor from a list.
bool ChangesItselfOnly(std::string_view callee);

// Returns how many bytes, from the address of an object that it gets, the function may change: for
// a member of a class which rows' names lie beside, that class's size.
int64_t ObjectBytes(std::string_view callee);

}  // namespace proftrace
