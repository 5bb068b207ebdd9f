#include "userspace/cli/say.h"

#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "userspace/base/dumped_json.h"
#include "userspace/base/shown_text.h"

namespace proftrace {
namespace {

constexpr char kProgramName[] = "proftrace: ";
constexpr char kLineStart[] = "\r";
constexpr char kRestOfLine[] = "\033[K";

std::string Formatted(const char* format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  const int bytes = std::vsnprintf(nullptr, 0, format, arguments);
  std::string text(bytes < 0 ? 0 : static_cast<size_t>(bytes), '\0');
  if (bytes > 0) std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  return text;
}

// Writes the text by one call, so that messages of several threads are not mixed.
void Put(const std::string& text, std::FILE* to) { std::fwrite(text.data(), 1, text.size(), to); }

}  // namespace

void Say(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Put(kProgramName + ShownText(Formatted(format, arguments)) + "\n", stderr);
  va_end(arguments);
}

void SayOverProgress(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string line = kProgramName + ShownText(Formatted(format, arguments)) + "\n";
  va_end(arguments);
  if (isatty(STDERR_FILENO) != 0) line.insert(0, std::string(kLineStart) + kRestOfLine);
  Put(line, stderr);
}

void ShowProgress(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Put(kLineStart + (kProgramName + ShownText(Formatted(format, arguments))) + kRestOfLine, stderr);
  va_end(arguments);
}

void Print(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Put(ShownLines(Formatted(format, arguments)), stdout);
  va_end(arguments);
}

void PrintDocument(const nlohmann::ordered_json& document, int indent) {
  Put(AsciiJson(document, indent) + "\n", stdout);
}

}  // namespace proftrace
