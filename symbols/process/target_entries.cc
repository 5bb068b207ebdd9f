#include "symbols/process/target_entries.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "symbols/process/entry_questions.h"
#include "symbols/process/process_maps.h"
#include "symbols/process/read_budget.h"

namespace proftrace {
namespace {

// Set once in a worker, before it reads anything.
WorkerChannel* entry_channel = nullptr;

// Asks about an entry and sets errno from the answer. Returns the rest of the answer.
WorkerAnswer AskFor(EntryQuestion kind, const std::string& path) {
  WorkerAnswer answer = entry_channel->Ask(static_cast<char>(kind) + path);
  uint32_t error = EPROTO;
  if (answer.bytes.size() >= sizeof(error)) {
    std::memcpy(&error, answer.bytes.data(), sizeof(error));
    answer.bytes.erase(0, sizeof(error));
  }
  errno = static_cast<int>(error);
  return answer;
}

// The most bytes of one answer: enough for the maps of a process with very many mappings.
constexpr size_t kMostTextBytes = size_t{128} << 20;

constexpr int kReadingFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

}  // namespace

void AskForEntries(WorkerChannel* channel) { entry_channel = channel; }

WorkerChannel* EntryChannel() { return entry_channel; }

UniqueFd OpenEntry(const std::string& path) {
  if (entry_channel != nullptr) return std::move(AskFor(EntryQuestion::kOpen, path).fd);
  return UniqueFd(open(path.c_str(), kReadingFlags));
}

std::string ReadEntry(const std::string& path, size_t limit_bytes) {
  if (entry_channel == nullptr) return ReadWhole(OpenEntry(path), limit_bytes);
  const auto limit = static_cast<uint32_t>(std::min<size_t>(limit_bytes, kMostTextBytes));
  std::string question(reinterpret_cast<const char*>(&limit), sizeof(limit));
  std::string text = AskFor(EntryQuestion::kText, question + path).bytes;
  if (!ReadBudget::PayAll(text.size())) return "";
  return text;
}

std::optional<struct stat> StatEntry(const std::string& path) {
  struct stat status {};
  if (entry_channel == nullptr) {
    if (stat(path.c_str(), &status) != 0) return std::nullopt;
    return status;
  }
  const WorkerAnswer answer = AskFor(EntryQuestion::kStat, path);
  if (answer.bytes.size() != sizeof(status)) return std::nullopt;
  std::memcpy(&status, answer.bytes.data(), sizeof(status));
  return status;
}

std::string ReadEntryLink(const std::string& path) {
  if (entry_channel != nullptr) return AskFor(EntryQuestion::kLink, path).bytes;
  char text[PATH_MAX];
  const ssize_t length = readlink(path.c_str(), text, sizeof(text));
  return length > 0 ? std::string(text, static_cast<size_t>(length)) : std::string();
}

}  // namespace proftrace
