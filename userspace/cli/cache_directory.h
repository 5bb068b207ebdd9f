// Finds where probe plans are kept between runs.
#pragma once

#include <string>

namespace proftrace {

// Returns $PROFTRACE_CACHE_DIR; else /var/cache/proftrace for root; else the user's cache
// directory. Empty: nowhere.
std::string CacheDirectory();

}  // namespace proftrace
