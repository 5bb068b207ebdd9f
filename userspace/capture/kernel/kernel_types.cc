#include "userspace/capture/kernel/kernel_types.h"

#include <bpf/libbpf.h>
#if __has_include(<bpf/libbpf_version.h>)
#include <bpf/libbpf_version.h>
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#if !defined(LIBBPF_MAJOR_VERSION) || LIBBPF_MAJOR_VERSION < 1
#define PROFTRACE_OLD_LIBBPF 1
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <thread>

#include "symbols/process/process_maps.h"
#include "userspace/base/unique_fd.h"
#endif

namespace proftrace {
namespace {

// The structures of BTF, as in Documentation/bpf/btf.rst of Linux.
constexpr uint16_t kMagic = 0xeb9f;

struct Header {
  uint16_t magic;
  uint8_t version;
  uint8_t flags;
  uint32_t header_bytes;
  uint32_t types_offset;  // from the end of the header
  uint32_t types_bytes;
  uint32_t strings_offset;
  uint32_t strings_bytes;
};

struct Type {
  uint32_t name;
  uint32_t info;  // members in the low 16 bits, the kind in 24 to 28, a flag in 31
  uint32_t size_or_type;
};

struct Member {
  uint32_t name;
  uint32_t type;
  uint32_t offset;
};

enum Kind : uint32_t {
  kInt = 1,
  kArray = 3,
  kStruct = 4,
  kUnion = 5,
  kEnum = 6,
  kConst = 10,
  kFunctionPrototype = 13,
  kVariable = 14,
  kSection = 15,
  kFloat = 16,
  kDeclarationTag = 17,
  kTypeTag = 18,
  kEnum64 = 19,
};

// Returns how many bytes follow the type itself; nullopt for a kind that is not known.
std::optional<size_t> BytesBehind(uint32_t kind, size_t members) {
  switch (kind) {
    case kInt:
    case kVariable:
    case kDeclarationTag:
      return 4;
    case kArray:
      return 12;
    case kStruct:
    case kUnion:
    case kSection:
    case kEnum64:
      return 12 * members;
    case kEnum:
    case kFunctionPrototype:
      return 8 * members;
    default:
      if (kind == 0 || kind > kEnum64) return std::nullopt;
      return 0;
  }
}

// Replaces a new kind by an old one. `behind` points to the bytes behind the type, such as its
// members.
void PutOldKind(uint32_t kind, char* behind, Type* type) {
  const uint32_t members = type->info & 0xffff;
  const auto set_kind = [&](uint32_t old) { type->info = old << 24 | members; };
  if (kind == kDeclarationTag) {
    const uint32_t linkage = 0;
    set_kind(kVariable);
    std::memcpy(behind, &linkage, sizeof(linkage));
  } else if (kind == kTypeTag) {
    set_kind(kConst);
    type->name = 0;
  } else if (kind == kEnum64) {
    set_kind(kStruct);
    for (uint32_t i = 0; i < members; ++i) {
      Member member{};
      std::memcpy(&member.name, behind + i * sizeof(member), sizeof(member.name));
      std::memcpy(behind + i * sizeof(member), &member, sizeof(member));
    }
  }
}

}  // namespace

std::optional<std::string> WithOldKindsOnly(std::string btf) {
  Header header;
  if (btf.size() < sizeof(header)) return std::nullopt;
  std::memcpy(&header, btf.data(), sizeof(header));
  if (header.magic != kMagic) return std::nullopt;
  const uint64_t begin = uint64_t{header.header_bytes} + header.types_offset;
  const uint64_t end = begin + header.types_bytes;
  if (end > btf.size()) return std::nullopt;
  uint64_t at = begin;
  while (at < end) {
    Type type;
    if (end - at < sizeof(type)) return std::nullopt;
    std::memcpy(&type, btf.data() + at, sizeof(type));
    const uint32_t kind = type.info >> 24 & 0x1f;
    const auto behind = BytesBehind(kind, type.info & 0xffff);
    if (!behind || end - at - sizeof(type) < *behind) return std::nullopt;
    PutOldKind(kind, btf.data() + at + sizeof(type), &type);
    std::memcpy(btf.data() + at, &type, sizeof(type));
    at += sizeof(type) + *behind;
  }
  return btf;
}

#ifdef PROFTRACE_OLD_LIBBPF

namespace {

constexpr char kDirectory[] = "/sys/kernel/btf";
constexpr char kFile[] = "/sys/kernel/btf/vmlinux";

std::optional<std::string> OldKernelTypes() {
  constexpr size_t kMostBytes = size_t{64} << 20;
  return WithOldKindsOnly(ReadSmallFile(kFile, kMostBytes));
}

// Puts `types` in the place of the kernel's, for the calling thread alone, which must end after it
// has loaded the programs. Other threads and processes still see the kernel's own types.
bool ShowInstead(const std::string& types) {
  // Mounts are made private first, because mounts in the new namespace would be seen in others
  // otherwise.
  if (unshare(CLONE_NEWNS) != 0 ||
      mount(nullptr, "/sys", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("tmpfs", kDirectory, "tmpfs", 0, nullptr) != 0) {
    return false;
  }
  const UniqueFd file(open(kFile, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  for (size_t done = 0; done < types.size();) {
    const ssize_t written = write(file.get(), types.data() + done, types.size() - done);
    if (written < 0) return false;
    done += static_cast<size_t>(written);
  }
  return true;
}

}  // namespace

int LoadPrograms(const std::function<int()>& load) {
  const auto types = OldKernelTypes();
  int error = 0;
  // This libbpf reads types only from the path of the kernel's own. A new thread gets other types
  // at that path, because a thread may have a mount namespace of its own while it shares
  // descriptors and memory with the process.
  std::thread loader([&] {
    if (types) (void)ShowInstead(*types);
    error = load();
  });
  loader.join();
  return error;
}

std::unique_ptr<btf, KernelTypesDeleter> LoadKernelTypes() {
  const auto types = OldKernelTypes();
  if (!types) return nullptr;
  btf* read = btf__new(types->data(), static_cast<uint32_t>(types->size()));
  // This libbpf returns errors as invalid addresses.
  return std::unique_ptr<btf, KernelTypesDeleter>(libbpf_get_error(read) == 0 ? read : nullptr);
}

#else

int LoadPrograms(const std::function<int()>& load) { return load(); }

std::unique_ptr<btf, KernelTypesDeleter> LoadKernelTypes() {
  return std::unique_ptr<btf, KernelTypesDeleter>(btf__load_vmlinux_btf());
}

#endif

}  // namespace proftrace
