// gzip by zlib, for builds that do not find ISA-L.
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "exporters/sinks/gzip_sink.h"

namespace proftrace {
namespace {

constexpr size_t kOutputBytes = 256 * 1024;
constexpr int kLevel = 1;
constexpr int kGzipWindowBits = 15 + 16;  // zlib.h: 16 more asks for the gzip wrapper
constexpr int kMemoryLevel = 9;

class ZlibSink : public ByteSink {
 public:
  explicit ZlibSink(std::unique_ptr<ByteSink> inner)
      : inner_(std::move(inner)), output_(kOutputBytes) {
    init_error_ = deflateInit2(&stream_, kLevel, Z_DEFLATED, kGzipWindowBits, kMemoryLevel,
                               Z_DEFAULT_STRATEGY);
  }
  ~ZlibSink() override { deflateEnd(&stream_); }

  absl::Status Write(std::string_view bytes) override {
    while (!bytes.empty()) {
      const size_t part = std::min<size_t>(bytes.size(), std::numeric_limits<uInt>::max());
      if (absl::Status status = Deflate(bytes.substr(0, part), Z_NO_FLUSH); !status.ok()) {
        return status;
      }
      bytes.remove_prefix(part);
    }
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    if (absl::Status status = Deflate({}, Z_FINISH); !status.ok()) return status;
    return inner_->Finish();
  }

 private:
  absl::Status Deflate(std::string_view bytes, int flush) {
    if (init_error_ != Z_OK) {
      return absl::InternalError("deflateInit2 failed: " + std::to_string(init_error_));
    }
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream_.avail_in = static_cast<uInt>(bytes.size());
    do {
      stream_.next_out = output_.data();
      stream_.avail_out = static_cast<uInt>(output_.size());
      // Z_BUF_ERROR only says that there was nothing to do.
      if (const int error = deflate(&stream_, flush); error == Z_STREAM_ERROR) {
        return absl::InternalError("deflate failed: " + std::to_string(error));
      }
      const size_t produced = output_.size() - stream_.avail_out;
      if (produced == 0) continue;
      const std::string_view compressed(reinterpret_cast<const char*>(output_.data()), produced);
      if (absl::Status status = inner_->Write(compressed); !status.ok()) return status;
    } while (stream_.avail_out == 0);
    return absl::OkStatus();
  }

  std::unique_ptr<ByteSink> inner_;
  std::vector<Bytef> output_;
  z_stream stream_{};
  int init_error_ = Z_OK;
};

}  // namespace

std::unique_ptr<ByteSink> NewGzipSink(std::unique_ptr<ByteSink> inner) {
  return std::make_unique<ZlibSink>(std::move(inner));
}

}  // namespace proftrace
