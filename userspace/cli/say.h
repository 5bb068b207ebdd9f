// Says and shows all that proftrace puts on a terminal, but tables and exports. What others have
// named is in it, so everything goes through ShownText(): one place, whatever a message is made of.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace proftrace {

// "proftrace: …" on standard error, as one line. `format`: as printf's.
[[gnu::format(printf, 1, 2)]] void Say(const char* format, ...);
// Says the same where the live line may stand: it makes room.
[[gnu::format(printf, 1, 2)]] void SayOverProgress(const char* format, ...);
// Shows the live line of a terminal, which stays until the next one or a message.
[[gnu::format(printf, 1, 2)]] void ShowProgress(const char* format, ...);

// Prints on standard output. The line ends that are in names are to be taken out by ShownText()
// before.
[[gnu::format(printf, 1, 2)]] void Print(const char* format, ...);
// Prints on standard output. What is not ASCII is written as \uXXXX: readers get the same text.
void PrintDocument(const nlohmann::json& document, int indent = 2);

}  // namespace proftrace
