// Reads the text of another program's file, once and from the first byte on: the file itself, or
// the contents of its gzip members.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace proftrace {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Reads at least one and at most `most` bytes into `to`. Returns how many; 0 at the end. Fails
  // with kInputDamaged, and names the file and the place in it.
  virtual absl::StatusOr<size_t> Read(char* to, size_t most) = 0;
  // Returns what is cut off at the end of the file ("its last gzip member"); empty where nothing
  // is.
  virtual std::string Cut() const { return ""; }
};

// Opens `path`. The contents are unpacked where the file begins as gzip does, whatever its name is.
// Fails with kUsage where there is no such file.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenByteSource(const std::string& path);

// Unpacks all gzip members of `packed`, one after the other. `path` is for messages.
std::unique_ptr<ByteSource> NewGunzipSource(std::unique_ptr<ByteSource> packed,
                                            const std::string& path);

// Reads a file to its end, or `most` bytes of it.
absl::StatusOr<std::string> ReadText(const std::string& path, size_t most);

}  // namespace proftrace
