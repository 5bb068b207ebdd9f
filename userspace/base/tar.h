// The parts of the tar format (POSIX.1 ustar) that results need: heads of files and folders, and
// where a file lies in an archive that others may have written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace proftrace {

inline constexpr size_t kTarBlockBytes = 512;

struct TarHead {
  std::string name;  // below 256 bytes; of a folder: with a slash at its end
  uint64_t bytes = 0;
  uint32_t mode = 0;
  int64_t time_s = 0;
  bool is_folder = false;
};

// Returns the block that goes before the file's bytes; empty: the name is too long.
std::string TarBlockOf(const TarHead& head);

// Returns how many bytes of zeros follow a file of `bytes`.
inline uint64_t TarPadding(uint64_t bytes) {
  return (kTarBlockBytes - bytes % kTarBlockBytes) % kTarBlockBytes;
}

// Whether a file begins as an archive does.
bool IsTar(std::span<const std::byte> block);

struct TarPlace {
  uint64_t offset = 0;  // of its first byte
  uint64_t bytes = 0;   // as its head says: an archive that was cut has fewer
};

// Finds the files that are called `name`, in whatever folder of the archive. `read` gives the block
// at an offset, nullopt where the archive ends. Stops at what is no head.
struct TarSearch {
  std::optional<TarPlace> first;
  uint64_t count = 0;
};
TarSearch FindInTar(
    std::string_view name,
    const std::function<std::optional<std::span<const std::byte>>(uint64_t offset)>& read);

}  // namespace proftrace
