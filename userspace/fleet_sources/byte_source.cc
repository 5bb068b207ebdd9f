#include "userspace/fleet_sources/byte_source.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "userspace/base/exit_status.h"
#include "userspace/base/unique_fd.h"
#include "userspace/fleet_sources/gzip_member.h"

namespace proftrace {
namespace {

constexpr size_t kPackedBytes = 256 * 1024;
constexpr char kGzipMark[] = {'\x1f', '\x8b'};

class FileSource final : public ByteSource {
 public:
  FileSource(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  absl::StatusOr<size_t> Read(char* to, size_t most) override {
    while (true) {
      const ssize_t got = read(fd_.get(), to, most);
      if (got >= 0) return static_cast<size_t>(got);
      if (errno == EINTR) continue;
      return Fail(ExitCode::kInputDamaged, "cannot read " + path_ + ": " + ErrnoText(errno));
    }
  }

 private:
  UniqueFd fd_;
  std::string path_;
};

class GunzipSource final : public ByteSource {
 public:
  GunzipSource(std::unique_ptr<ByteSource> packed, std::string path)
      : packed_(std::move(packed)),
        path_(std::move(path)),
        buffer_(kPackedBytes),
        member_(NewGzipMember()) {}

  absl::StatusOr<size_t> Read(char* to, size_t most) override {
    if (member_ == nullptr) return absl::ResourceExhaustedError("no memory to unpack " + path_);
    std::span<char> room(to, most);
    while (!is_done_ && room.size() == most) {
      if (absl::Status status = Fill(); !status.ok()) return status;
      if (!is_in_member_ && !BeginMember()) continue;
      switch (member_->Unpack(&waiting_, &room)) {
        case GzipMember::Outcome::kEnds:
          is_in_member_ = false;
          ++members_;
          break;
        case GzipMember::Outcome::kDamaged:
          return Fail(ExitCode::kInputDamaged, path_ +
                                                   " is damaged: what is packed before its byte " +
                                                   std::to_string(read_bytes_ - waiting_.size()) +
                                                   " is no gzip; copy it again");
        case GzipMember::Outcome::kGoesOn:
          if (!has_ended_ || !waiting_.empty() || room.size() < most) break;
          is_done_ = true;
          cut_ = "the end of its gzip member";
          break;
      }
    }
    return most - room.size();
  }
  std::string Cut() const override { return cut_; }

 private:
  // Reads on in the file where everything read so far has been unpacked.
  absl::Status Fill() {
    if (!waiting_.empty() || has_ended_) return absl::OkStatus();
    const absl::StatusOr<size_t> got = packed_->Read(buffer_.data(), buffer_.size());
    if (!got.ok()) return got.status();
    has_ended_ = *got == 0;
    read_bytes_ += *got;
    waiting_ = std::string_view(buffer_.data(), *got);
    return absl::OkStatus();
  }
  // Begins the next member. Returns false where there is none, or where padding before it is not
  // all read.
  bool BeginMember() {
    // Zeros behind a member are padding that tapes and block devices add.
    if (members_ > 0) {
      waiting_.remove_prefix(std::min(waiting_.find_first_not_of('\0'), waiting_.size()));
    }
    is_done_ = has_ended_ && waiting_.empty();
    if (waiting_.empty()) return false;
    member_->Begin();
    is_in_member_ = true;
    return true;
  }

  std::unique_ptr<ByteSource> packed_;
  std::string path_;
  std::vector<char> buffer_;
  std::unique_ptr<GzipMember> member_;
  std::string_view waiting_;  // the part of buffer_ that is not unpacked yet
  bool has_ended_ = false;    // whether packed_ has ended
  bool is_in_member_ = false;
  bool is_done_ = false;
  uint64_t members_ = 0;
  uint64_t read_bytes_ = 0;
  std::string cut_;
};

}  // namespace

std::unique_ptr<ByteSource> NewGunzipSource(std::unique_ptr<ByteSource> packed,
                                            const std::string& path) {
  return std::make_unique<GunzipSource>(std::move(packed), path);
}

absl::StatusOr<std::unique_ptr<ByteSource>> OpenByteSource(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    return Fail(ExitCode::kUsage, "cannot open " + path + ": " + ErrnoText(errno));
  }
  char mark[sizeof kGzipMark] = {};
  const bool is_packed = pread(fd.get(), mark, sizeof mark, 0) == sizeof mark &&
                         mark[0] == kGzipMark[0] && mark[1] == kGzipMark[1];
  std::unique_ptr<ByteSource> file = std::make_unique<FileSource>(std::move(fd), path);
  if (is_packed) return NewGunzipSource(std::move(file), path);
  return file;
}

absl::StatusOr<std::string> ReadText(const std::string& path, size_t most) {
  absl::StatusOr<std::unique_ptr<ByteSource>> source = OpenByteSource(path);
  if (!source.ok()) return source.status();
  constexpr size_t kPiece = size_t{1} << 16;
  std::string text;
  while (text.size() < most) {
    const size_t before = text.size();
    text.resize(std::min(most, before + kPiece));
    const absl::StatusOr<size_t> got = (*source)->Read(text.data() + before, text.size() - before);
    if (!got.ok()) return got.status();
    text.resize(before + *got);
    if (*got == 0) break;
  }
  return text;
}

}  // namespace proftrace
