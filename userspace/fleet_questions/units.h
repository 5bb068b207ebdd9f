// Formats numbers of answers with their units, for sentences and tables.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace proftrace {

// Each returns an empty text for null.
std::string TimeOf(const nlohmann::json& ns);
std::string ShareOf(const nlohmann::json& share);
std::string BytesOf(const nlohmann::json& bytes);

// Returns the number; 0 for null.
double NumberOr0(const nlohmann::json& cell);

}  // namespace proftrace
