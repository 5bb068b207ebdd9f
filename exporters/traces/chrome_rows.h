// Writes the small rows of Chrome's format that rows of the CPU and rows of GPUs both need.
#pragma once

#include <cstdint>
#include <string_view>

#include "exporters/sinks/json_writer.h"
#include "exporters/sinks/text_writer.h"

namespace proftrace {

// Where and when a row is.
struct ChromePlace {
  int64_t pid = 0;
  int64_t tid = 0;
  int64_t ts_ns = 0;
};

// Stands behind every row but the last.
inline constexpr std::string_view kChromeRowEnd = ",\n";

// Write a row of metadata about a process or thread: `row` is "process_name" or the like, and `key`
// is the name of its only arg.
void WriteTrackText(std::string_view row, std::string_view key, std::string_view text,
                    const ChromePlace& place, TextWriter* writer);
void WriteTrackNumber(std::string_view row, std::string_view key, int64_t number,
                      const ChromePlace& place, TextWriter* writer);

// Writes one end of Kineto's arrow. `category` is its name too.
void WriteFlow(std::string_view category, uint64_t id, bool is_start, const ChromePlace& place,
               TextWriter* writer);

}  // namespace proftrace
