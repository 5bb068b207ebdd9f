// Prints all messages of proftrace, but no tables and exports. Messages contain names that other
// programs chose, so that everything goes through ShownText() here, in one place.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace proftrace {

// Prints "proftrace: …" on standard error, as one line. `format`: as for printf.
[[gnu::format(printf, 1, 2)]] void Say(const char* format, ...);
// Prints such a message where a live line may be on the terminal, and clears that line first.
[[gnu::format(printf, 1, 2)]] void SayOverProgress(const char* format, ...);
// Shows the live line of a terminal, which stays until the next one or a message.
[[gnu::format(printf, 1, 2)]] void ShowProgress(const char* format, ...);

// Prints on standard output. The caller must take line ends out of names by ShownText().
[[gnu::format(printf, 1, 2)]] void Print(const char* format, ...);
// Prints a document on standard output. Characters beyond ASCII are written as \uXXXX, which JSON
// readers turn back into the same text. The keys of a plain nlohmann::json come in their own order.
void PrintDocument(const nlohmann::ordered_json& document, int indent = 2);

}  // namespace proftrace
