#include "symbols/elf/elf_file.h"

#include <absl/strings/escaping.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "userspace/base/byte_view.h"

namespace proftrace {
namespace {

// The largest libtorch seen has 28 sections and a 130 MB string table; a static build with debug
// information needs more.
constexpr uint64_t kMaxSections = 4096;
constexpr uint64_t kMaxSegments = 1024;
constexpr size_t kMaxLoadedSegments = 64;
constexpr uint64_t kMaxTableBytes = uint64_t{512} << 20;  // of symbols, or of their names
constexpr uint64_t kMaxSectionBytes = uint64_t{256} << 20;
constexpr size_t kMaxSymbols = 4'000'000;  // libtorch_cpu has 630000
constexpr size_t kMaxNameBytes = 32768;    // the longest of libtorch's names has some thousand
constexpr size_t kMaxBuildIdBytes = 64;
constexpr size_t kMaxNoteBytes = 65536;

// How many bytes are read at once between two looks at the budget.
constexpr size_t kPieceBytes = size_t{8} << 20;
// The limits for one file, whose tables are read several times and its code once or twice.
constexpr uint64_t kMostReadBytes = uint64_t{4} << 30;
constexpr uint64_t kMostKeptBytes = uint64_t{640} << 20;
// A file that takes little room on its disk, even on a file system that compresses, has no large
// tables, because the holes of a sparse file are empty. So the limits are at most kMostPacked times
// its room on the disk.
constexpr uint64_t kMostPacked = 16;
constexpr uint64_t kLeastKeptBytes = uint64_t{64} << 20;
constexpr uint64_t kBlockBytes = 512;  // the unit of st_blocks

ReadBudget::Limits LimitsOf(const struct stat& status) {
  ReadBudget::Limits limits{.bytes = kMostReadBytes, .kept_bytes = kMostKeptBytes};
  // Some file systems do not report the room.
  if (status.st_blocks <= 0) return limits;
  const uint64_t most_blocks = kMostKeptBytes / kBlockBytes / kMostPacked;
  const uint64_t blocks = std::min(static_cast<uint64_t>(status.st_blocks), most_blocks);
  limits.kept_bytes = std::max(kLeastKeptBytes, blocks * kBlockBytes * kMostPacked);
  limits.bytes = std::min(kMostReadBytes, 8 * limits.kept_bytes);
  return limits;
}

// The places of a file's tables, and how many entries they have, as its head states.
struct ElfHead {
  uint64_t segments_at = 0;
  uint64_t segments = 0;
  uint64_t sections_at = 0;
  uint64_t sections = 0;
  uint64_t names = 0;  // the section that has the names of sections
};

absl::StatusOr<ElfHead> ReadHead(const HeldFile& file) {
  Elf64_Ehdr header;
  if (file.ReadAt(0, &header, sizeof(header)) != sizeof(header) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return absl::InvalidArgumentError("not an ELF file");
  }
  if (header.e_machine != EM_X86_64 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_version != EV_CURRENT) {
    return absl::UnimplementedError("not x86-64 code");
  }
  ElfHead head{header.e_phoff, header.e_phnum, header.e_shoff, header.e_shnum, header.e_shstrndx};
  // Numbers that do not fit into the header are in section 0 (System V ABI, "ELF Header").
  Elf64_Shdr first{};
  if (head.sections_at != 0 &&
      file.ReadAt(head.sections_at, &first, sizeof(first)) == sizeof(first)) {
    if (head.sections == 0) head.sections = first.sh_size;
    if (head.segments == PN_XNUM) head.segments = first.sh_info;
    if (head.names == SHN_XINDEX) head.names = first.sh_link;
  }
  if (head.segments > kMaxSegments ||
      (head.segments > 0 && header.e_phentsize != sizeof(Elf64_Phdr))) {
    return absl::InvalidArgumentError("bad program headers");
  }
  if (head.sections > kMaxSections ||
      (head.sections > 0 && header.e_shentsize != sizeof(Elf64_Shdr))) {
    return absl::InvalidArgumentError("bad section headers");
  }
  return head;
}

}  // namespace

ElfFile::ElfFile(std::shared_ptr<const HeldFile> held)
    : held_(std::move(held)), budget_(LimitsOf(held_->status())) {}

absl::StatusOr<std::unique_ptr<ElfFile>> ElfFile::Open(std::shared_ptr<const HeldFile> held) {
  if (held == nullptr) return absl::NotFoundError("not a regular file");
  auto file = std::unique_ptr<ElfFile>(new ElfFile(std::move(held)));
  if (absl::Status result = file->ReadHeaders(); !result.ok()) return result;
  file->ReadBuildId();
  return file;
}

absl::StatusOr<std::unique_ptr<ElfFile>> ElfFile::Open(UniqueFd fd) {
  return Open(HeldFile::Hold(std::move(fd)));
}

bool ElfFile::HasBoundedHead(const HeldFile& file) { return ReadHead(file).ok(); }

absl::Status ElfFile::ReadHeaders() {
  const absl::StatusOr<ElfHead> head = ReadHead(*held_);
  if (!head.ok()) return head.status();
  size_t loaded = 0;
  for (uint64_t i = 0; i < head->segments; ++i) {
    Elf64_Phdr segment;
    if (ReadOffset(head->segments_at + i * sizeof(segment), &segment, sizeof(segment)) !=
        sizeof(segment)) {
      break;
    }
    if (segment.p_type == PT_LOAD && ++loaded > kMaxLoadedSegments) {
      return absl::InvalidArgumentError("bad program headers");
    }
    if (IsLoadedFromFile(segment)) segments_.push_back(segment);
  }
  ReadSections(head->sections_at, head->sections, head->names);
  if (head->names >= sections_.size()) return absl::InvalidArgumentError("no section names");
  return absl::OkStatus();
}

void ElfFile::ReadSections(uint64_t offset, uint64_t count, uint64_t names) {
  std::vector<Elf64_Shdr> headers(count);
  headers.resize(ReadOffset(offset, headers.data(), count * sizeof(Elf64_Shdr)) /
                 sizeof(Elf64_Shdr));
  for (const Elf64_Shdr& section : headers) {
    sections_.push_back({"", section.sh_addr, section.sh_offset, section.sh_size, section.sh_type,
                         section.sh_flags, section.sh_link});
  }
  if (names >= sections_.size()) return;
  const std::vector<uint8_t> text = ReadSection(sections_[names]);
  for (size_t i = 0; i < sections_.size(); ++i) {
    constexpr size_t kMaxSectionNameBytes = 256;
    const ByteView name = ByteView(text).From(headers[i].sh_name, kMaxSectionNameBytes);
    if (name.size() == 0) continue;
    const char* first = reinterpret_cast<const char*>(name.data());
    sections_[i].name.assign(first, strnlen(first, name.size()));
  }
}

void ElfFile::ReadBuildId() {
  constexpr uint32_t kGnu = 0x00554e47;  // "GNU" and its NUL
  for (const ElfSection& section : sections_) {
    if (section.type != SHT_NOTE || section.size > kMaxNoteBytes) continue;
    const std::vector<uint8_t> notes = ReadSection(section);
    const ByteView view(notes);
    uint64_t at = 0;
    while (const auto note = view.Get<Elf64_Nhdr>(at)) {
      const uint64_t text_at = at + sizeof(*note) + ((note->n_namesz + uint64_t{3}) & ~uint64_t{3});
      if (!view.Holds(text_at, note->n_descsz)) break;
      const bool is_gnu = view.Get<uint32_t>(at + sizeof(*note)) == kGnu;
      if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == sizeof(kGnu) && is_gnu &&
          note->n_descsz <= kMaxBuildIdBytes) {
        const ByteView id = view.From(text_at, note->n_descsz);
        build_id_ = absl::BytesToHexString(
            absl::string_view(reinterpret_cast<const char*>(id.data()), id.size()));
        return;
      }
      at = text_at + ((note->n_descsz + uint64_t{3}) & ~uint64_t{3});
    }
  }
}

const ElfSection* ElfFile::FindSection(std::string_view name) const {
  for (const ElfSection& section : sections_) {
    if (section.name == name) return &section;
  }
  return nullptr;
}

size_t ElfFile::ReadOffset(uint64_t offset, void* buffer, size_t bytes) const {
  size_t done = 0;
  while (done < bytes) {
    const size_t piece = std::min(bytes - done, kPieceBytes);
    const bool may_of_file = budget_.Pay(piece);
    if (!ReadBudget::PayAll(piece) || !may_of_file) break;
    const size_t got = held_->ReadAt(offset + done, static_cast<char*>(buffer) + done, piece);
    done += got;
    if (got != piece) break;
  }
  return done;
}

size_t ElfFile::ReadAddress(uint64_t address, void* buffer, size_t bytes) const {
  for (const Elf64_Phdr& segment : segments_) {
    if (address < segment.p_vaddr || address - segment.p_vaddr >= segment.p_filesz) continue;
    const uint64_t inside = address - segment.p_vaddr;
    const uint64_t left = segment.p_filesz - inside;
    return ReadOffset(segment.p_offset + inside, buffer,
                      static_cast<size_t>(std::min<uint64_t>(bytes, left)));
  }
  return 0;
}

bool ElfFile::HoldsSection(const ElfSection& section) const {
  const uint64_t file_bytes = static_cast<uint64_t>(status().st_size);
  return section.type != SHT_NOBITS && section.size != 0 && section.file_offset <= file_bytes &&
         section.size <= file_bytes - section.file_offset;
}

// Reads a section that is kept. Its room in the budget is not released before the file is closed.
std::unique_ptr<uint8_t[]> ElfFile::ReadRaw(const ElfSection& section, size_t extra_bytes) {
  if (!HoldsSection(section) || !budget_.Keep(section.size) || section.size > kMaxTableBytes) {
    return nullptr;
  }
  std::unique_ptr<uint8_t[]> bytes(new uint8_t[section.size + extra_bytes]);
  if (ReadOffset(section.file_offset, bytes.get(), section.size) != section.size) return nullptr;
  std::memset(bytes.get() + section.size, 0, extra_bytes);
  return bytes;
}

std::vector<uint8_t> ElfFile::ReadSection(const ElfSection& section) const {
  if (!HoldsSection(section) || section.size > kMaxSectionBytes) return {};
  std::vector<uint8_t> bytes(section.size);
  if (ReadOffset(section.file_offset, bytes.data(), bytes.size()) != bytes.size()) return {};
  return bytes;
}

namespace {

// Cuts each name that is longer than any real one, because a hostile file may have one name without
// an end and a million symbols that share it.
void EndNames(char* strings, size_t bytes) {
  for (size_t at = 0; at < bytes;) {
    const size_t reach = std::min(kMaxNameBytes, bytes - at);
    const auto* end = static_cast<const char*>(memrchr(strings + at, 0, reach));
    if (end == nullptr) strings[at + reach - 1] = '\0';
    at = end == nullptr ? at + reach : static_cast<size_t>(end - strings) + 1;
  }
}

}  // namespace

const ElfFile::Table& ElfFile::LoadTable(bool full) {
  Table& table = full ? full_table_ : dynamic_table_;
  if (table.loaded) return table;
  table.loaded = true;
  const uint32_t type = full ? SHT_SYMTAB : SHT_DYNSYM;
  for (const ElfSection& section : sections_) {
    if (section.type != type || section.link >= sections_.size()) continue;
    const ElfSection& strings = sections_[section.link];
    auto symbol_bytes = ReadRaw(section, 0);
    auto string_bytes = ReadRaw(strings, 1);  // one byte more, for the end of the last string
    if (symbol_bytes == nullptr || string_bytes == nullptr) break;
    table.symbols = std::move(symbol_bytes);
    table.count = std::min<size_t>(section.size / sizeof(Elf64_Sym), kMaxSymbols);
    table.strings.reset(reinterpret_cast<char*>(string_bytes.release()));
    table.string_bytes = strings.size;
    EndNames(table.strings.get(), table.string_bytes);
    break;
  }
  return table;
}

ElfSymbol ElfFile::SymbolAt(const Table& table, size_t index) const {
  const Elf64_Sym raw = ByteView(table.symbols.get(), table.count * sizeof(Elf64_Sym))
                            .Get<Elf64_Sym>(index * sizeof(Elf64_Sym))
                            .value_or(Elf64_Sym{});
  ElfSymbol symbol;
  if (raw.st_name < table.string_bytes) {
    symbol.text = table.strings.get() + raw.st_name;
  }
  symbol.address = raw.st_value;
  symbol.size = raw.st_size;
  const unsigned type = ELF64_ST_TYPE(raw.st_info);
  symbol.is_function = type == STT_FUNC || type == STT_GNU_IFUNC;
  symbol.is_defined = raw.st_shndx != SHN_UNDEF && raw.st_shndx != SHN_ABS;
  return symbol;
}

void ElfFile::ForgetFullSymbols() {
  full_table_.symbols.reset();
  full_table_.count = 0;
}

void ElfFile::ForEachSymbol(bool full, const std::function<void(const ElfSymbol&)>& visit) {
  const Table& table = LoadTable(full);
  for (size_t i = 0; i < table.count && ReadBudget::MayGoOn(); ++i) visit(SymbolAt(table, i));
}

void ElfFile::LoadImports() {
  if (imports_loaded_) return;
  imports_loaded_ = true;
  const Table& symbols = LoadTable(/*full=*/false);
  for (const ElfSection& section : sections_) {
    if (section.type != SHT_RELA) continue;
    const std::vector<uint8_t> bytes = ReadSection(section);
    const ByteView view(bytes);
    for (size_t at = 0; view.Holds(at, sizeof(Elf64_Rela)); at += sizeof(Elf64_Rela)) {
      const auto entry = view.Get<Elf64_Rela>(at);
      const uint32_t type = ELF64_R_TYPE(entry->r_info);
      const uint64_t index = ELF64_R_SYM(entry->r_info);
      if ((type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) || index >= symbols.count) {
        continue;
      }
      if (slot_names_.size() >= kMaxSymbols || !ReadBudget::MayGoOn()) return;
      slot_names_.try_emplace(entry->r_offset, SymbolAt(symbols, index).name());
    }
  }
  for (const ElfSection& section : sections_) {
    if (!section.name.starts_with(".plt") || section.type != SHT_PROGBITS) continue;
    const std::vector<uint8_t> code = ReadSection(section);
    // A stub has 16 bytes, or 8 in .plt.got without endbr64. It has one `jmp *slot(%rip)`: ff 25
    // disp32.
    const size_t step = section.name == ".plt.got" ? 8 : 16;
    for (size_t stub = 0; stub + 6 <= code.size() && ReadBudget::MayGoOn(); stub += step) {
      for (size_t at = stub; at < stub + step && at + 6 <= code.size(); ++at) {
        if (code[at] != 0xff || code[at + 1] != 0x25) continue;
        const int64_t displacement = ByteView(code).Get<int32_t>(at + 2).value_or(0);
        const uint64_t slot = section.address + at + 6 + static_cast<uint64_t>(displacement);
        const auto found = slot_names_.find(slot);
        if (found != slot_names_.end()) plt_names_.emplace(section.address + stub, found->second);
        break;
      }
    }
  }
}

const absl::flat_hash_map<uint64_t, std::string_view>& ElfFile::PltNames() {
  LoadImports();
  return plt_names_;
}

const absl::flat_hash_map<uint64_t, std::string_view>& ElfFile::SlotNames() {
  LoadImports();
  return slot_names_;
}

std::vector<const ElfSection*> ElfFile::CodeSections(size_t* left_out) const {
  std::vector<const ElfSection*> sections;
  const uint64_t file_bytes = static_cast<uint64_t>(status().st_size);
  uint64_t left = kMostScannedBytes;
  for (const ElfSection& section : sections_) {
    if (section.type != SHT_PROGBITS || (section.flags & SHF_EXECINSTR) == 0) continue;
    if (section.file_offset > file_bytes || section.size > file_bytes - section.file_offset) {
      continue;
    }
    if (section.size > left) {
      if (left_out != nullptr) ++*left_out;
      continue;
    }
    left -= section.size;
    sections.push_back(&section);
  }
  return sections;
}

}  // namespace proftrace
