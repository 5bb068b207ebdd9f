// The parts of the tar format (POSIX.1 ustar) that results need: writes heads of files and folders,
// and finds a file in an archive that others may have written.
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
  std::string name;  // shorter than 256 bytes; the name of a folder ends with a slash
  uint64_t bytes = 0;
  uint32_t mode = 0;
  int64_t time_s = 0;
  bool is_folder = false;
};

// Returns the head block, which is written before the file's bytes. Empty: the name is too long.
std::string TarBlockOf(const TarHead& head);

// Returns how many zero bytes follow the content of a file of `bytes`.
inline uint64_t TarPadding(uint64_t bytes) {
  return (kTarBlockBytes - bytes % kTarBlockBytes) % kTarBlockBytes;
}

// Whether a file begins as an archive does.
bool IsTar(std::span<const std::byte> block);

struct TarPlace {
  uint64_t offset = 0;  // of the file's first byte
  uint64_t bytes = 0;   // the length that the head states; an archive that was cut off has fewer
};

// Finds the files that are called `name`, in any folder of the archive: their number, and where the
// first one lies. `read` gives the block at an offset; nullopt: the archive ends before it. The
// search stops at the first block that should be a head and is none.
struct TarSearch {
  std::optional<TarPlace> first;
  uint64_t count = 0;
};
TarSearch FindInTar(
    std::string_view name,
    const std::function<std::optional<std::span<const std::byte>>(uint64_t offset)>& read);

}  // namespace proftrace
