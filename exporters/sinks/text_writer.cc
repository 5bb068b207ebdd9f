#include "exporters/sinks/text_writer.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace proftrace {
namespace {

constexpr size_t kBufferBytes = 256 * 1024;

}  // namespace

char* PutDecimal(char* at, double value, int decimals) {
  if (!std::isfinite(value)) value = 0;
  return at + std::snprintf(at, kMaxDecimalBytes, "%.*f", decimals, value);
}

TextWriter::TextWriter(ByteSink& sink)
    : sink_(sink),
      capacity_(kBufferBytes),
      buffer_(new char[kBufferBytes]),
      at_(buffer_.get()),
      end_(buffer_.get() + kBufferBytes) {}

absl::Status TextWriter::Flush() {
  if (status_.ok() && at_ != buffer_.get()) {
    status_ =
        sink_.Write(std::string_view(buffer_.get(), static_cast<size_t>(at_ - buffer_.get())));
  }
  at_ = buffer_.get();
  return status_;
}

void TextWriter::MakeRoom(size_t bytes) {
  Flush().IgnoreError();  // kept in status_
  if (bytes <= capacity_) return;
  capacity_ = std::max(bytes, capacity_ * 2);
  buffer_.reset(new char[capacity_]);
  at_ = buffer_.get();
  end_ = at_ + capacity_;
}

}  // namespace proftrace
