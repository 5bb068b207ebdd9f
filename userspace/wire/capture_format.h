// The bytes of a capture file (.ptrec): a file header, then blocks. A block that is not whole does
// not count: a reader takes everything up to the last good block, however the writer ended. Little
// endian, as the records in it.
//
//   file header | block header, payload | block header, payload | …
//
// Blocks hold records (bpf/abi/records.h, back to back), records of GPU agents (bpf/abi/
// gpu_records.h; those come up to seconds late) or metadata (a JSON array,
// userspace/wire/metadata.h). A file that was closed properly ends with an end block.
#pragma once

#include <cstddef>
#include <cstdint>

namespace proftrace {

inline constexpr char kCaptureMagic[8] = {'P', 'T', 'R', 'E', 'C', '\x1a', '\r', '\n'};
inline constexpr uint32_t kCaptureVersion = 1;
inline constexpr uint32_t kBlockMagic = 0x4b425450;  // "PTBK"
// The largest size of a block. It bounds the memory that a reader allocates for a damaged or
// hostile file.
inline constexpr uint32_t kMaxBlockBytes = 64u << 20;

enum class BlockType : uint16_t { kRecords = 1, kMetadata = 2, kEnd = 3, kDeviceRecords = 4 };
enum class BlockCompression : uint16_t { kNone = 0, kZstd = 1 };

struct CaptureFileHeader {
  char magic[8];
  uint32_t version;
  uint32_t header_bytes;
  uint64_t checksum;  // XXH3 (64 bits) of the bytes before it
};
static_assert(sizeof(CaptureFileHeader) == 24);

struct BlockHeader {
  uint32_t magic;
  uint16_t type;          // BlockType; unknown ones are skipped
  uint16_t compression;   // BlockCompression
  uint32_t raw_bytes;     // size of the payload once decompressed
  uint32_t stored_bytes;  // size of the payload in the file
  uint32_t sequence;      // 0, 1, 2 …: a gap means a lost block
  uint32_t reserved;
  uint64_t payload_checksum;  // XXH3 of the stored payload
  uint64_t header_checksum;   // XXH3 of the bytes before it
};
static_assert(sizeof(BlockHeader) == 40);

}  // namespace proftrace
