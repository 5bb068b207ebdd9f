#include "userspace/fleet/event_runs.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

constexpr size_t kRunBufferBytes = size_t{256} << 10;

// The header of each record in the file; the record's bytes follow.
struct RunHeader {
  EventKey key;
  uint64_t size = 0;
};

absl::Status CannotSort(const GuardedFolder& scratch, int error) {
  return Fail(ExitCode::kOutputFailed, "cannot write a temporary file into " + scratch.path() +
                                           ": " + ErrnoText(error) + "; free some space there");
}

}  // namespace

// Reads one run from its first record on.
class EventRuns::RunReader {
 public:
  RunReader(int fd, uint64_t begin, uint64_t end) : fd_(fd), at_(begin), end_(end) {}

  // Reads the next record. Returns false at the end, or after an error, which errno tells.
  bool Next() {
    RunHeader header;
    if (!Need(sizeof(header))) return false;
    std::memcpy(&header, buffer_.data() + begin_, sizeof(header));
    if (!Need(sizeof(header) + header.size)) return false;
    key_ = header.key;
    record_ = std::string_view(buffer_).substr(begin_ + sizeof(header), header.size);
    begin_ += sizeof(header) + header.size;
    return true;
  }
  const EventKey& key() const { return key_; }
  std::string_view record() const { return record_; }
  bool failed() const { return failed_; }

 private:
  bool Need(size_t bytes) {
    if (buffer_.size() - begin_ >= bytes) return true;
    buffer_.erase(0, begin_);
    begin_ = 0;
    while (buffer_.size() < bytes && at_ < end_) {
      const size_t old = buffer_.size();
      const size_t wanted = std::min<uint64_t>(std::max(bytes - old, kRunBufferBytes), end_ - at_);
      buffer_.resize(old + wanted);
      const ssize_t got = pread(fd_, buffer_.data() + old, wanted, static_cast<off_t>(at_));
      buffer_.resize(old + static_cast<size_t>(std::max<ssize_t>(0, got)));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        failed_ = true;
        return false;
      }
      at_ += static_cast<uint64_t>(got);
    }
    return buffer_.size() >= bytes;
  }

  int fd_;
  uint64_t at_;
  uint64_t end_;
  std::string buffer_;
  size_t begin_ = 0;
  EventKey key_;
  std::string_view record_;
  bool failed_ = false;
};

absl::Status EventRuns::Add(EventKey key, std::string_view record) {
  key.number = next_number_++;
  entries_.push_back({key, bytes_.size(), static_cast<uint32_t>(record.size())});
  bytes_ += record;
  if (bytes_.size() + entries_.size() * sizeof(Entry) < most_bytes_) return absl::OkStatus();
  return WriteRun();
}

void EventRuns::SortEntries() {
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return a.key < b.key; });
}

absl::Status EventRuns::WriteRun() {
  if (!file_.valid()) file_ = scratch_.CreateTemporary();
  if (!file_.valid()) return CannotSort(scratch_, errno);
  SortEntries();
  std::string out;
  uint64_t end = run_ends_.empty() ? 0 : run_ends_.back();
  const auto flush = [&] {
    for (size_t at = 0; at < out.size();) {
      const ssize_t written =
          pwrite(file_.get(), out.data() + at, out.size() - at, static_cast<off_t>(end));
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return false;
      at += static_cast<size_t>(written);
      end += static_cast<uint64_t>(written);
    }
    out.clear();
    return true;
  };
  for (const Entry& entry : entries_) {
    const RunHeader header = {entry.key, entry.size};
    out.append(reinterpret_cast<const char*>(&header), sizeof(header));
    out.append(bytes_, entry.begin, entry.size);
    if (out.size() >= kRunBufferBytes && !flush()) return CannotSort(scratch_, errno);
  }
  if (!flush()) return CannotSort(scratch_, errno);
  run_ends_.push_back(end);
  entries_.clear();
  bytes_.clear();
  return absl::OkStatus();
}

absl::Status EventRuns::TakeAll(
    const std::function<absl::Status(const EventKey&, std::string_view record)>& take) {
  next_number_ = 0;
  if (run_ends_.empty()) {
    SortEntries();
    const std::vector<Entry> entries = std::exchange(entries_, {});
    const std::string bytes = std::exchange(bytes_, {});
    for (const Entry& entry : entries) {
      absl::Status status =
          take(entry.key, std::string_view(bytes).substr(entry.begin, entry.size));
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }
  if (absl::Status status = WriteRun(); !status.ok()) return status;
  std::vector<std::unique_ptr<RunReader>> runs;
  for (uint64_t begin = 0; const uint64_t end : std::exchange(run_ends_, {})) {
    auto run = std::make_unique<RunReader>(file_.get(), begin, end);
    begin = end;
    if (run->Next()) runs.push_back(std::move(run));
  }
  const auto is_later = [](const auto& a, const auto& b) { return b->key() < a->key(); };
  std::make_heap(runs.begin(), runs.end(), is_later);
  while (!runs.empty()) {
    std::pop_heap(runs.begin(), runs.end(), is_later);
    RunReader& next = *runs.back();
    absl::Status status = take(next.key(), next.record());
    if (!status.ok()) return status;
    if (next.Next()) {
      std::push_heap(runs.begin(), runs.end(), is_later);
    } else {
      if (next.failed()) return CannotSort(scratch_, errno);
      runs.pop_back();
    }
  }
  file_ = UniqueFd();
  return absl::OkStatus();
}

}  // namespace proftrace
