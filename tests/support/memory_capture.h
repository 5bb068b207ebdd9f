// A capture file in memory: written through a CaptureWriter, read back.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <utility>
#include <vector>

#include "userspace/wire/capture_reader.h"
#include "userspace/wire/capture_writer.h"

namespace proftrace {

class MemoryCapture {
 public:
  MemoryCapture() : fd_(memfd_create("capture", MFD_CLOEXEC)) {}
  ~MemoryCapture() { close(fd_); }
  MemoryCapture(const MemoryCapture&) = delete;
  MemoryCapture& operator=(const MemoryCapture&) = delete;

  std::unique_ptr<CaptureWriter> Writer() const {
    auto writer = CaptureWriter::Create(dup(fd_), "capture");
    EXPECT_TRUE(writer.ok()) << writer.status();
    return *std::move(writer);
  }
  // Lives as long as this does.
  std::unique_ptr<CaptureReader> Reader() {
    bytes_.resize(static_cast<size_t>(lseek(fd_, 0, SEEK_END)));
    EXPECT_EQ(pread(fd_, bytes_.data(), bytes_.size(), 0), static_cast<ssize_t>(bytes_.size()));
    auto reader = CaptureReader::FromBytes(bytes_, CaptureReader::Options());
    EXPECT_TRUE(reader.ok()) << reader.status();
    return *std::move(reader);
  }

 private:
  int fd_;
  std::vector<std::byte> bytes_;
};

}  // namespace proftrace
