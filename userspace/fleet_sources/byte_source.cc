#include "userspace/fleet_sources/byte_source.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "userspace/base/exit_status.h"
#include "userspace/base/unique_fd.h"

namespace proftrace {
namespace {

constexpr size_t kPackedBytes = 256 * 1024;
constexpr int kGunzipWindowBits = 15 + 16;  // zlib.h: 16 more asks for the gzip wrapper
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
      : packed_(std::move(packed)), path_(std::move(path)), buffer_(kPackedBytes) {
    init_error_ = inflateInit2(&stream_, kGunzipWindowBits);
  }
  ~GunzipSource() override { inflateEnd(&stream_); }

  absl::StatusOr<size_t> Read(char* to, size_t most) override {
    if (init_error_ != Z_OK) return absl::InternalError("inflateInit2 failed");
    stream_.next_out = reinterpret_cast<Bytef*>(to);
    stream_.avail_out = static_cast<uInt>(std::min<size_t>(most, 1U << 30));
    const size_t room = stream_.avail_out;
    while (!is_done_) {
      if (stream_.avail_in == 0) {
        const absl::StatusOr<size_t> got = packed_->Read(buffer_.data(), buffer_.size());
        if (!got.ok()) return got.status();
        if (*got == 0) {
          is_done_ = true;
          if (is_in_member_) cut_ = "the end of its gzip member";
          break;
        }
        stream_.next_in = reinterpret_cast<Bytef*>(buffer_.data());
        stream_.avail_in = static_cast<uInt>(*got);
        read_bytes_ += *got;
      }
      if (!is_in_member_) {
        // Zeros behind a member are padding, of tapes and of block devices.
        if (members_ > 0 && *stream_.next_in == 0) {
          ++stream_.next_in;
          --stream_.avail_in;
          continue;
        }
        inflateReset(&stream_);
        is_in_member_ = true;
      }
      const int result = inflate(&stream_, Z_NO_FLUSH);
      if (result == Z_STREAM_END) {
        is_in_member_ = false;
        ++members_;
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        return Fail(ExitCode::kInputDamaged, path_ +
                                                 " is damaged: what is packed before its byte " +
                                                 std::to_string(read_bytes_ - stream_.avail_in) +
                                                 " is no gzip; copy it again");
      }
      if (stream_.avail_out < room) break;
    }
    return room - stream_.avail_out;
  }
  std::string Cut() const override { return cut_; }

 private:
  std::unique_ptr<ByteSource> packed_;
  std::string path_;
  std::vector<char> buffer_;
  z_stream stream_{};
  int init_error_ = Z_OK;
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

}  // namespace proftrace
