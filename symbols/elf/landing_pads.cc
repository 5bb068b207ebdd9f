#include "symbols/elf/landing_pads.h"

#include <absl/status/status.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

#include "userspace/base/byte_view.h"

namespace proftrace {
namespace {

// DWARF exception header encodings (LSB core specification, "DWARF Extensions").
constexpr uint8_t kOmitted = 0xff;
constexpr uint8_t kFormatMask = 0x0f;
constexpr uint8_t kUleb128 = 0x01;
constexpr uint8_t kUnsigned4 = 0x03;
constexpr uint8_t kSigned4 = 0x0b;
constexpr uint8_t kPcRelative = 0x10;
constexpr uint8_t kPcRelativeSigned4 = kPcRelative | kSigned4;
constexpr uint8_t kIndirect = 0x80;

// How many bytes of an FDE or CIE are read: as many as are needed
constexpr size_t kRecordBytes = 64;
constexpr size_t kTableHeadBytes = 32;  // the head of an LSDA: three encodings and three numbers
constexpr uint64_t kMostTableBytes = uint64_t{1} << 16;

// Reads the bytes of a file that lie at `address` one after the other.
class Cursor {
 public:
  Cursor(const ElfFile& file, uint64_t address, size_t bytes) : address_(address), bytes_(bytes) {
    bytes_.resize(file.ReadAddress(address, bytes_.data(), bytes_.size()));
  }

  bool failed() const { return failed_; }
  uint64_t address() const { return address_ + at_; }
  size_t at() const { return at_; }
  size_t left() const { return bytes_.size() - at_; }
  void Skip(uint64_t bytes) { Check(bytes) ? at_ += bytes : 0; }
  uint8_t Byte() { return Check(1) ? bytes_[at_++] : 0; }
  uint32_t Word() {
    const auto value = ByteView(bytes_).Get<uint32_t>(at_);
    if (!value) failed_ = true;
    if (failed_) return 0;
    at_ += sizeof(*value);
    return *value;
  }
  uint64_t Uleb() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const uint8_t byte = Byte();
      value |= uint64_t{byte & 0x7fu} << shift;
      if ((byte & 0x80) == 0) return value;
    }
    failed_ = true;
    return 0;
  }
  std::string_view Text() {
    const auto* const first = reinterpret_cast<const char*>(bytes_.data()) + at_;
    const void* const last = std::memchr(first, 0, left());
    if (last == nullptr) {
      failed_ = true;
      return {};
    }
    const std::string_view text(first);
    at_ += text.size() + 1;
    return text;
  }
  // Reads an address of 4 bytes that is relative to their own place.
  uint64_t Relative() {
    const uint64_t from = address();
    return from + static_cast<int64_t>(static_cast<int32_t>(Word()));
  }

 private:
  bool Check(uint64_t bytes) {
    if (bytes > left()) failed_ = true;
    return !failed_;
  }

  uint64_t address_;
  std::vector<uint8_t> bytes_;
  size_t at_ = 0;
  bool failed_ = false;
};

absl::Status Unknown(std::string_view what) {
  return absl::UnimplementedError("its function's unwind table " + std::string(what));
}

// Whether FDEs of the CIE at `address` have a pointer to language-specific data.
absl::StatusOr<bool> HasData(const ElfFile& file, uint64_t address) {
  Cursor cie(file, address, kRecordBytes);
  cie.Skip(8);  // length, CIE mark
  const uint8_t version = cie.Byte();
  const std::string_view augmentation = cie.Text();
  if (cie.failed() || version != 1 || !augmentation.starts_with('z')) {
    return Unknown("has an unknown form");
  }
  cie.Uleb();  // code alignment
  cie.Uleb();  // data alignment
  cie.Byte();  // register of the return address
  cie.Uleb();  // length of what follows
  bool has_data = false;
  for (const char letter : augmentation.substr(1)) {
    if (letter == 'P') {
      const uint8_t encoding = cie.Byte() & static_cast<uint8_t>(~kIndirect);
      if ((encoding & kFormatMask) != kSigned4 && (encoding & kFormatMask) != kUnsigned4) {
        return Unknown("has an unknown personality");
      }
      cie.Skip(4);
    } else if (letter == 'L') {
      const uint8_t encoding = cie.Byte();
      if (encoding != kPcRelativeSigned4) return Unknown("has data of an unknown form");
      has_data = true;
    } else if (letter == 'R') {
      if (cie.Byte() != kPcRelativeSigned4) return Unknown("has an unknown form");
    } else if (letter != 'S') {
      return Unknown("has an unknown form");
    }
  }
  if (cie.failed()) return Unknown("ends early");
  return has_data;
}

absl::StatusOr<std::vector<uint64_t>> ReadCallSites(const ElfFile& file, uint64_t table,
                                                    uint64_t function) {
  Cursor head(file, table, kTableHeadBytes);
  uint64_t base = function;
  if (const uint8_t encoding = head.Byte(); encoding == kPcRelativeSigned4) {
    base = head.Relative();
  } else if (encoding != kOmitted) {
    return Unknown("has landing pads of an unknown form");
  }
  if (head.Byte() != kOmitted) head.Uleb();  // the offset of the types
  const uint8_t encoding = head.Byte();
  const uint64_t bytes = head.Uleb();
  if (head.failed() || bytes > kMostTableBytes ||
      (encoding != kUleb128 && encoding != kUnsigned4)) {
    return Unknown("has call sites of an unknown form");
  }
  std::vector<uint64_t> pads;
  Cursor sites(file, head.address(), bytes);
  if (sites.left() != bytes) return Unknown("ends early");
  while (sites.left() > 0) {
    uint64_t fields[3];  // start, length, landing pad
    for (uint64_t& field : fields) field = encoding == kUleb128 ? sites.Uleb() : sites.Word();
    sites.Uleb();  // action
    if (sites.failed()) return Unknown("ends early");
    if (fields[2] != 0) pads.push_back(base + fields[2]);
  }
  std::sort(pads.begin(), pads.end());
  pads.erase(std::unique(pads.begin(), pads.end()), pads.end());
  return pads;
}

}  // namespace

absl::StatusOr<std::vector<uint64_t>> ReadLandingPads(const ElfFile& file, uint64_t record) {
  Cursor fde(file, record, kRecordBytes);
  fde.Word();  // length
  const uint64_t cie_pointer_at = fde.address();
  const uint64_t cie = cie_pointer_at - fde.Word();
  const absl::StatusOr<bool> has_data = HasData(file, cie);
  if (!has_data.ok()) return has_data.status();
  if (!*has_data) return std::vector<uint64_t>();
  const uint64_t function = fde.Relative();
  fde.Word();  // range
  const uint64_t bytes = fde.Uleb();
  if (fde.failed() || bytes < 4) return Unknown("ends early");
  const uint64_t pointer_at = fde.address();
  const uint64_t table = fde.Relative();
  if (fde.failed()) return Unknown("ends early");
  // The pointer is 0: the function has no table
  if (table == pointer_at) return std::vector<uint64_t>();
  return ReadCallSites(file, table, function);
}

}  // namespace proftrace
