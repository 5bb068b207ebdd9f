// Where the text of a foreign file comes from: the file itself, or what its gzip members hold. Read
// once, from the first byte on.
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
  // Reads at most `most` bytes into `to`, at least one; 0: the end. Errors are kInputDamaged, and
  // name the file and the place in it.
  virtual absl::StatusOr<size_t> Read(char* to, size_t most) = 0;
  // Says what was cut off of the file, at its end ("its last gzip member"); empty: nothing.
  virtual std::string Cut() const { return ""; }
};

// Opens `path`, and unpacks it where it begins as gzip does, whatever its name is. Fails with
// kUsage where there is no such file.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenByteSource(const std::string& path);

// Unpacks all gzip members of `packed`, one after the other. `path` is for messages.
std::unique_ptr<ByteSource> NewGunzipSource(std::unique_ptr<ByteSource> packed,
                                            const std::string& path);

// Reads a file to its end, or `most` bytes of it.
absl::StatusOr<std::string> ReadText(const std::string& path, size_t most);

}  // namespace proftrace
