// Finds the directory in which probe plans are kept between runs.
#pragma once

#include <string>

namespace proftrace {

// Returns $PROFTRACE_CACHE_DIR; else /var/cache/proftrace for root; else the user's cache
// directory. Empty where plans are not kept.
std::string CacheDirectory();

}  // namespace proftrace
