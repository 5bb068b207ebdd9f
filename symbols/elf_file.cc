#include "symbols/elf_file.h"

#include <absl/strings/escaping.h>
#include <absl/strings/str_cat.h>
#include <gelf.h>
#include <libelf.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace proftrace {
namespace {

// The largest libtorch seen has 28 sections and a 130 MB string table; a static build with debug
// information needs more.
constexpr size_t kMaxSections = 65536;
constexpr size_t kMaxSegments = 1024;
constexpr uint64_t kMaxSectionBytes = uint64_t{1} << 30;
constexpr size_t kMaxSymbols = 8'000'000;  // libtorch_cpu has 630000
constexpr size_t kMaxBuildIdBytes = 64;
constexpr size_t kMaxNoteBytes = 65536;

struct ElfCloser {
  void operator()(Elf* elf) const { elf_end(elf); }
};

}  // namespace

absl::StatusOr<std::unique_ptr<ElfFile>> ElfFile::Open(UniqueFd fd) {
  struct stat status;
  if (fstat(fd.get(), &status) != 0) return absl::NotFoundError("cannot stat the file");
  auto file = std::unique_ptr<ElfFile>(new ElfFile(std::move(fd), status));
  if (absl::Status result = file->ReadHeaders(); !result.ok()) return result;
  file->ReadBuildId();
  return file;
}

absl::Status ElfFile::ReadHeaders() {
  if (elf_version(EV_CURRENT) == EV_NONE) return absl::InternalError("libelf is too old");
  const std::unique_ptr<Elf, ElfCloser> elf(elf_begin(fd_.get(), ELF_C_READ, nullptr));
  GElf_Ehdr header;
  if (elf == nullptr || elf_kind(elf.get()) != ELF_K_ELF ||
      gelf_getehdr(elf.get(), &header) == nullptr) {
    return absl::InvalidArgumentError("not an ELF file");
  }
  if (header.e_machine != EM_X86_64 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB) {
    return absl::UnimplementedError("not x86-64 code");
  }
  size_t segment_count = 0;
  if (elf_getphdrnum(elf.get(), &segment_count) != 0 || segment_count > kMaxSegments) {
    return absl::InvalidArgumentError("bad program headers");
  }
  for (size_t i = 0; i < segment_count; ++i) {
    GElf_Phdr segment;
    if (gelf_getphdr(elf.get(), static_cast<int>(i), &segment) == nullptr) break;
    segments_.push_back(segment);
  }
  size_t section_count = 0;
  size_t names = 0;
  if (elf_getshdrnum(elf.get(), &section_count) != 0 || section_count > kMaxSections ||
      elf_getshdrstrndx(elf.get(), &names) != 0) {
    return absl::InvalidArgumentError("bad section headers");
  }
  std::vector<size_t> name_offsets;
  for (size_t i = 0; i < section_count; ++i) {
    GElf_Shdr section;
    Elf_Scn* handle = elf_getscn(elf.get(), i);
    if (handle == nullptr || gelf_getshdr(handle, &section) == nullptr) break;
    sections_.push_back({"", section.sh_addr, section.sh_offset, section.sh_size, section.sh_type,
                         section.sh_flags, section.sh_link});
    name_offsets.push_back(section.sh_name);
  }
  if (names >= sections_.size()) return absl::InvalidArgumentError("no section names");
  const std::vector<uint8_t> text = ReadSection(sections_[names]);
  for (size_t i = 0; i < sections_.size(); ++i) {
    if (name_offsets[i] >= text.size()) continue;
    const char* name = reinterpret_cast<const char*>(text.data()) + name_offsets[i];
    sections_[i].name.assign(name, strnlen(name, text.size() - name_offsets[i]));
  }
  return absl::OkStatus();
}

void ElfFile::ReadBuildId() {
  for (const ElfSection& section : sections_) {
    if (section.type != SHT_NOTE || section.size > kMaxNoteBytes) continue;
    const std::vector<uint8_t> notes = ReadSection(section);
    size_t at = 0;
    while (at + sizeof(Elf64_Nhdr) <= notes.size()) {
      Elf64_Nhdr note;
      std::memcpy(&note, notes.data() + at, sizeof(note));
      if (note.n_namesz > kMaxNoteBytes || note.n_descsz > kMaxNoteBytes) break;
      const size_t text_at = at + sizeof(note) + ((note.n_namesz + 3u) & ~size_t{3});
      const size_t next = text_at + ((note.n_descsz + 3u) & ~size_t{3});
      if (text_at + note.n_descsz > notes.size()) break;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
          note.n_descsz <= kMaxBuildIdBytes &&
          std::memcmp(notes.data() + at + sizeof(note), "GNU", 4) == 0) {
        build_id_ = absl::BytesToHexString(absl::string_view(
            reinterpret_cast<const char*>(notes.data()) + text_at, note.n_descsz));
        return;
      }
      at = next;
    }
  }
}

const ElfSection* ElfFile::FindSection(std::string_view name) const {
  for (const ElfSection& section : sections_) {
    if (section.name == name) return &section;
  }
  return nullptr;
}

std::optional<uint64_t> ElfFile::FileOffset(uint64_t address) const {
  for (const Elf64_Phdr& segment : segments_) {
    if (segment.p_type != PT_LOAD || address < segment.p_vaddr) continue;
    const uint64_t inside = address - segment.p_vaddr;
    if (inside < segment.p_filesz && segment.p_offset <= UINT64_MAX - inside) {
      return segment.p_offset + inside;
    }
  }
  return std::nullopt;
}

std::optional<uint64_t> ElfFile::AddressOfOffset(uint64_t file_offset) const {
  constexpr uint64_t kPage = 4096;
  for (const Elf64_Phdr& segment : segments_) {
    if (segment.p_type != PT_LOAD || segment.p_filesz == 0) continue;
    // The kernel maps whole pages: a mapping may begin before the segment does.
    const uint64_t first = segment.p_offset & ~(kPage - 1);
    if (file_offset < first || segment.p_filesz > UINT64_MAX - segment.p_offset) continue;
    if (file_offset >= segment.p_offset + segment.p_filesz) continue;
    return segment.p_vaddr + (file_offset - segment.p_offset);
  }
  return std::nullopt;
}

size_t ElfFile::ReadOffset(uint64_t offset, void* buffer, size_t bytes) const {
  size_t done = 0;
  if (offset > static_cast<uint64_t>(INT64_MAX)) return 0;
  while (done < bytes) {
    const ssize_t got = pread(fd_.get(), static_cast<char*>(buffer) + done, bytes - done,
                              static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

size_t ElfFile::ReadAddress(uint64_t address, void* buffer, size_t bytes) const {
  for (const Elf64_Phdr& segment : segments_) {
    if (segment.p_type != PT_LOAD || address < segment.p_vaddr) continue;
    const uint64_t inside = address - segment.p_vaddr;
    if (inside >= segment.p_filesz || segment.p_offset > UINT64_MAX - inside) continue;
    const uint64_t left = segment.p_filesz - inside;
    return ReadOffset(segment.p_offset + inside, buffer,
                      static_cast<size_t>(std::min<uint64_t>(bytes, left)));
  }
  return 0;
}

bool ElfFile::HoldsSection(const ElfSection& section) const {
  const uint64_t file_bytes = static_cast<uint64_t>(status_.st_size);
  return section.type != SHT_NOBITS && section.size != 0 && section.size <= kMaxSectionBytes &&
         section.file_offset <= file_bytes && section.size <= file_bytes - section.file_offset;
}

std::unique_ptr<uint8_t[]> ElfFile::ReadRaw(const ElfSection& section, size_t extra_bytes) const {
  if (!HoldsSection(section)) return nullptr;
  std::unique_ptr<uint8_t[]> bytes(new uint8_t[section.size + extra_bytes]);
  if (ReadOffset(section.file_offset, bytes.get(), section.size) != section.size) return nullptr;
  std::memset(bytes.get() + section.size, 0, extra_bytes);
  return bytes;
}

std::vector<uint8_t> ElfFile::ReadSection(const ElfSection& section) const {
  if (!HoldsSection(section)) return {};
  std::vector<uint8_t> bytes(section.size);
  if (ReadOffset(section.file_offset, bytes.data(), bytes.size()) != bytes.size()) return {};
  return bytes;
}

const ElfFile::Table& ElfFile::LoadTable(bool full) {
  Table& table = full ? full_table_ : dynamic_table_;
  if (table.loaded) return table;
  table.loaded = true;
  const uint32_t type = full ? SHT_SYMTAB : SHT_DYNSYM;
  for (const ElfSection& section : sections_) {
    if (section.type != type || section.link >= sections_.size()) continue;
    const ElfSection& strings = sections_[section.link];
    auto symbol_bytes = ReadRaw(section, 0);
    auto string_bytes = ReadRaw(strings, 1);  // ends the last string
    if (symbol_bytes == nullptr || string_bytes == nullptr) break;
    table.symbols = std::move(symbol_bytes);
    table.count = std::min<size_t>(section.size / sizeof(Elf64_Sym), kMaxSymbols);
    table.strings.reset(reinterpret_cast<char*>(string_bytes.release()));
    table.string_bytes = strings.size;
    break;
  }
  return table;
}

ElfSymbol ElfFile::SymbolAt(const Table& table, size_t index) const {
  Elf64_Sym raw;
  std::memcpy(&raw, table.symbols.get() + index * sizeof(raw), sizeof(raw));
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
  for (size_t i = 0; i < table.count; ++i) visit(SymbolAt(table, i));
}

void ElfFile::LoadImports() {
  if (imports_loaded_) return;
  imports_loaded_ = true;
  const Table& symbols = LoadTable(/*full=*/false);
  for (const ElfSection& section : sections_) {
    if (section.type != SHT_RELA) continue;
    const auto bytes = ReadRaw(section, 0);
    if (bytes == nullptr) continue;
    for (size_t at = 0; at + sizeof(Elf64_Rela) <= section.size; at += sizeof(Elf64_Rela)) {
      Elf64_Rela entry;
      std::memcpy(&entry, bytes.get() + at, sizeof(entry));
      const uint32_t type = ELF64_R_TYPE(entry.r_info);
      const uint64_t index = ELF64_R_SYM(entry.r_info);
      if ((type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) || index >= symbols.count) {
        continue;
      }
      slot_names_.try_emplace(entry.r_offset, SymbolAt(symbols, index).name());
    }
  }
  for (const ElfSection& section : sections_) {
    if (!section.name.starts_with(".plt") || section.type != SHT_PROGBITS) continue;
    const std::vector<uint8_t> code = ReadSection(section);
    // A stub is 16 bytes, 8 in .plt.got without endbr64; it holds one `jmp *slot(%rip)`: ff 25
    // disp32.
    const size_t step = section.name == ".plt.got" ? 8 : 16;
    for (size_t stub = 0; stub + 6 <= code.size(); stub += step) {
      for (size_t at = stub; at < stub + step && at + 6 <= code.size(); ++at) {
        if (code[at] != 0xff || code[at + 1] != 0x25) continue;
        int32_t displacement;
        std::memcpy(&displacement, code.data() + at + 2, sizeof(displacement));
        const uint64_t slot = section.address + at + 6 + static_cast<int64_t>(displacement);
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
  const uint64_t file_bytes = static_cast<uint64_t>(status_.st_size);
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

std::vector<Elf64_Phdr> ElfFile::LoadedSegments() const {
  std::vector<Elf64_Phdr> loaded;
  for (const Elf64_Phdr& segment : segments_) {
    if (segment.p_type != PT_LOAD || segment.p_filesz == 0) continue;
    if (segment.p_filesz > UINT64_MAX - segment.p_offset) continue;
    loaded.push_back(segment);
  }
  return loaded;
}

namespace {

// What `mapping` says of the bias if it is of `segment`. Whole pages are mapped: one of two
// segments may be both's.
std::optional<uint64_t> BiasOf(const Mapping& mapping, const Elf64_Phdr& segment) {
  constexpr uint64_t kPage = 4096;
  if (mapping.file_offset < (segment.p_offset & ~(kPage - 1)) ||
      mapping.file_offset >= segment.p_offset + segment.p_filesz) {
    return std::nullopt;
  }
  return mapping.start - (segment.p_vaddr + (mapping.file_offset - segment.p_offset));
}

// The place with that bias, and how many segments lie there.
std::pair<LoadedPlace, size_t> PlaceWith(uint64_t bias, const std::vector<Elf64_Phdr>& segments,
                                         const MappedFile& mapped) {
  std::pair<LoadedPlace, size_t> place{{bias, {}}, 0};
  std::vector<bool> is_there(segments.size());
  for (const Mapping& mapping : mapped.mappings) {
    bool fits = false;
    for (size_t i = 0; i < segments.size(); ++i) {
      if (BiasOf(mapping, segments[i]) != bias) continue;
      fits = true;
      is_there[i] = true;
    }
    if (fits) place.first.mappings.push_back(mapping);
  }
  place.second = static_cast<size_t>(std::count(is_there.begin(), is_there.end(), true));
  return place;
}

}  // namespace

std::optional<LoadedPlace> FindLoadedPlace(const ElfFile& file, const MappedFile& mapped) {
  constexpr size_t kMostPlaces = 64;  // a file that is mapped as code more often is no library
  const std::vector<Elf64_Phdr> segments = file.LoadedSegments();
  std::optional<LoadedPlace> best;
  size_t most = 0;
  std::vector<uint64_t> seen;
  for (const Mapping& mapping : mapped.mappings) {
    if (!mapping.executable) continue;
    for (const Elf64_Phdr& segment : segments) {
      const auto bias = (segment.p_flags & PF_X) != 0 ? BiasOf(mapping, segment) : std::nullopt;
      if (!bias || seen.size() >= kMostPlaces ||
          std::find(seen.begin(), seen.end(), *bias) != seen.end()) {
        continue;
      }
      seen.push_back(*bias);
      auto [place, count] = PlaceWith(*bias, segments, mapped);
      if (count <= most) continue;
      most = count;
      const auto code = std::find(place.mappings.begin(), place.mappings.end(), mapping);
      std::rotate(place.mappings.begin(), code, code + 1);
      best = std::move(place);
    }
  }
  return best;
}

std::optional<uint64_t> LoadBias(const ElfFile& file, const MappedFile& mapped) {
  const auto place = FindLoadedPlace(file, mapped);
  return place ? std::optional(place->bias) : std::nullopt;
}

}  // namespace proftrace
