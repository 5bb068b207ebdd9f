#include "symbols/plan_cache.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <type_traits>
#include <utility>

#include "bpf/abi/records.h"

namespace proftrace {
namespace {

constexpr char kMagic[8] = {'P', 'T', 'P', 'L', 'A', 'N', 'C', '\n'};
// Raise it with every change to the analysis or to this format: older entries are then made anew.
constexpr uint32_t kVersion = 76;
constexpr size_t kHeaderBytes =
    sizeof(kMagic) + 4 + 4 + 8 + 8;  // magic, version, 0, size, checksum
constexpr size_t kMaxEntryBytes = size_t{64} << 20;
constexpr size_t kMaxFunctions = 65536;
constexpr size_t kMaxEnds = 16;
constexpr uint32_t kMaxPieces = 8 * KeptPiece::kSources;
constexpr uint32_t kMaxSavedDoubles = 8;  // as many as there are registers for them

class Writer {
 public:
  template <typename T>
  void Number(T value) {
    static_assert(std::is_unsigned_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void Text(std::string_view text) {
    Number(static_cast<uint32_t>(text.size()));
    bytes_.append(text);
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// After the first value that does not fit, everything reads as 0 and ok() is false.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  template <typename T>
  T Number() {
    T value = 0;
    if (bytes_.size() < sizeof(value)) {
      Spoil();
      return 0;
    }
    std::memcpy(&value, bytes_.data(), sizeof(value));
    bytes_.remove_prefix(sizeof(value));
    return value;
  }
  std::string Text() {
    const uint32_t size = Number<uint32_t>();
    if (size > bytes_.size()) {
      Spoil();
      return "";
    }
    std::string text(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    return text;
  }
  bool ok() const { return ok_; }
  bool at_end() const { return bytes_.empty(); }

 private:
  void Spoil() {
    ok_ = false;
    bytes_ = {};
  }
  std::string_view bytes_;
  bool ok_ = true;
};

std::string Identity(const ElfFile& file) {
  const struct stat& s = file.status();
  return absl::StrFormat("%s %x %x %x %x.%x %x.%x", file.build_id(), s.st_dev, s.st_ino, s.st_size,
                         s.st_mtim.tv_sec, s.st_mtim.tv_nsec, s.st_ctim.tv_sec, s.st_ctim.tv_nsec);
}

std::string EntryName(std::string_view identity) {
  const XXH128_hash_t hash = XXH3_128bits(identity.data(), identity.size());
  return absl::StrFormat("%016x%016x.plan", hash.high64, hash.low64);
}

bool IsOursAlone(const struct stat& status) {
  return status.st_uid == geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

bool ReadFully(int fd, char* buffer, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t got = read(fd, buffer + done, bytes - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    done += static_cast<size_t>(got);
  }
  return true;
}

bool WriteFully(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return true;
}

void EncodeFunction(const ProbedFunction& function, Writer* out) {
  out->Number(static_cast<uint8_t>(function.role));
  out->Number(static_cast<uint8_t>(function.exit_rule));
  out->Number(function.argument);
  out->Number(function.stack_argument);
  out->Number(static_cast<uint8_t>(function.begin_emulated));
  out->Number(function.begin);
  out->Number(function.cost_probe);
  out->Number(function.callbacks.offset);
  out->Number(function.callbacks.key_set);
  out->Number(static_cast<uint16_t>(function.callbacks.key_set_offset));
  out->Number(function.callbacks.frame_words);
  out->Number(static_cast<uint32_t>(function.ends.size()));
  for (const uint64_t end : function.ends) out->Number(end);
  out->Number(function.saved_doubles.address);
  out->Number(static_cast<uint32_t>(function.saved_doubles.saved.size()));
  for (const SavedDouble& place : function.saved_doubles.saved) {
    out->Number(static_cast<uint8_t>((place.is_saved ? 1 : 0) | (place.by_frame_pointer ? 2 : 0)));
    out->Number(static_cast<uint16_t>(place.offset));
  }
  out->Number(function.arguments.stack_words);
  out->Number(static_cast<uint32_t>(function.arguments.pieces.size()));
  for (const KeptPiece& piece : function.arguments.pieces) {
    out->Number(piece.source);
    out->Number(piece.first);
    out->Number(piece.count);
    out->Number(static_cast<uint8_t>(piece.in_frame));
    out->Number(static_cast<uint16_t>(piece.place));
  }
  out->Text(function.symbol);
}

bool DecodeArguments(Reader* in, KeptArguments* arguments) {
  arguments->stack_words = in->Number<uint16_t>();
  const uint32_t count = in->Number<uint32_t>();
  if (!in->ok() || count > kMaxPieces) return false;
  for (uint32_t i = 0; i < count; ++i) {
    KeptPiece piece;
    piece.source = in->Number<uint8_t>();
    piece.first = in->Number<uint8_t>();
    piece.count = in->Number<uint8_t>();
    piece.in_frame = in->Number<uint8_t>() != 0;
    piece.place = static_cast<int16_t>(in->Number<uint16_t>());
    if (!in->ok() || piece.source >= KeptPiece::kSources || piece.first + piece.count > 8 ||
        piece.place < 0) {
      return false;
    }
    arguments->pieces.push_back(piece);
  }
  return true;
}

bool DecodeSavedDoubles(Reader* in, uint64_t file_bytes, SavedDoubles* doubles) {
  doubles->address = in->Number<uint64_t>();
  const uint32_t count = in->Number<uint32_t>();
  if (!in->ok() || doubles->address >= file_bytes || count > kMaxSavedDoubles) return false;
  for (uint32_t i = 0; i < count; ++i) {
    const uint8_t flags = in->Number<uint8_t>();
    const auto offset = static_cast<int16_t>(in->Number<uint16_t>());
    doubles->saved.push_back(SavedDouble{(flags & 1) != 0, (flags & 2) != 0, offset});
  }
  return in->ok();
}

bool DecodeFunction(Reader* in, uint64_t file_bytes, ProbedFunction* function) {
  const uint8_t role = in->Number<uint8_t>();
  const uint8_t rule = in->Number<uint8_t>();
  function->role = static_cast<FunctionRole>(role);
  function->exit_rule = static_cast<ExitRule>(rule);
  function->argument = in->Number<uint8_t>();
  function->stack_argument = in->Number<uint8_t>();
  function->begin_emulated = in->Number<uint8_t>() != 0;
  function->begin = in->Number<uint64_t>();
  function->cost_probe = in->Number<uint64_t>();
  function->callbacks.offset = in->Number<uint64_t>();
  function->callbacks.key_set = in->Number<uint8_t>();
  function->callbacks.key_set_offset = static_cast<int16_t>(in->Number<uint16_t>());
  function->callbacks.frame_words = in->Number<uint16_t>();
  const uint32_t ends = in->Number<uint32_t>();
  const bool is_role = role <= static_cast<uint8_t>(FunctionRole::kCatch) ||
                       IsMemoryRole(static_cast<FunctionRole>(role)) ||
                       role == static_cast<uint8_t>(FunctionRole::kCudaCall);
  if (!in->ok() || !is_role || rule > static_cast<uint8_t>(ExitRule::kReturn) ||
      function->argument > abi::PT_R9 || function->stack_argument > abi::PT_R9 ||
      function->begin >= file_bytes || function->cost_probe >= file_bytes ||
      function->callbacks.offset >= file_bytes ||
      function->callbacks.frame_words >= PT_FRAME_WORDS_LIMIT || ends > kMaxEnds) {
    return false;
  }
  for (uint32_t i = 0; i < ends; ++i) {
    const uint64_t end = in->Number<uint64_t>();
    if (end >= file_bytes || end == function->begin || end == function->callbacks.offset) {
      return false;
    }
    if (!function->ends.empty() && end <= function->ends.back()) return false;
    function->ends.push_back(end);
  }
  if (HasNoEnd(function->role) != function->ends.empty()) return false;
  if (!DecodeSavedDoubles(in, file_bytes, &function->saved_doubles)) return false;
  if (!DecodeArguments(in, &function->arguments)) return false;
  function->symbol = in->Text();
  return in->ok();
}

void EncodePlace(const abi::pt_place& place, Writer* out) {
  out->Number(place.address);
  for (const int32_t offset : place.offsets) out->Number(static_cast<uint32_t>(offset));
  out->Number(place.base);
  out->Number(place.count);
  out->Number(place.form);
  out->Number(place.is_byte);
  out->Number(place.is_content);
}

bool DecodePlace(Reader* in, uint8_t last_base, abi::pt_place* place) {
  place->address = in->Number<uint64_t>();
  for (int32_t& offset : place->offsets) offset = static_cast<int32_t>(in->Number<uint32_t>());
  place->base = in->Number<uint8_t>();
  place->count = in->Number<uint8_t>();
  place->form = in->Number<uint8_t>();
  place->is_byte = in->Number<uint8_t>();
  place->is_content = in->Number<uint8_t>();
  return in->ok() && place->base <= last_base && place->count > 0 &&
         place->count <= PT_PLACE_OFFSETS && place->form <= abi::PT_PLACE_PYTHON_STRING;
}

void EncodeProbe(const RowProbe& probe, Writer* out) {
  out->Number(probe.offset);
  out->Number(probe.role);
  out->Number(probe.handle_register);
  out->Number(static_cast<uint16_t>(probe.handle_offset));
  out->Number(static_cast<uint8_t>(probe.place.has_value()));
  if (probe.place) EncodePlace(*probe.place, out);
  out->Number(static_cast<uint8_t>(probe.inputs.kind));
  out->Number(static_cast<uint8_t>(probe.inputs.words.size()));
  for (const abi::pt_place& word : probe.inputs.words) EncodePlace(word, out);
}

bool DecodeProbe(Reader* in, uint64_t file_bytes, RowProbe* probe) {
  probe->offset = in->Number<uint64_t>();
  probe->role = in->Number<uint8_t>();
  probe->handle_register = in->Number<uint8_t>();
  probe->handle_offset = static_cast<int16_t>(in->Number<uint16_t>());
  if (in->Number<uint8_t>() != 0) {
    probe->place.emplace();
    if (!DecodePlace(in, abi::PT_PLACE_ADDRESS, &*probe->place)) return false;
  }
  const uint8_t kind = in->Number<uint8_t>();
  const uint8_t words = in->Number<uint8_t>();
  if (kind > static_cast<uint8_t>(RowInputKind::kInferredValues) || words > PT_ROW_WORDS)
    return false;
  probe->inputs.kind = static_cast<RowInputKind>(kind);
  for (uint8_t i = 0; i < words; ++i) {
    if (!DecodePlace(in, abi::PT_PLACE_UNKNOWN, &probe->inputs.words.emplace_back())) return false;
  }
  const bool is_role =
      probe->role <= abi::PT_ROLE_WORK_BEGIN ||
      (probe->role >= abi::PT_ROLE_RANGE_PUSH && probe->role <= abi::PT_ROLE_RANGE_MARK);
  return in->ok() && probe->offset < file_bytes && is_role;
}

void EncodeVariable(const ThreadVariable& variable, Writer* out) {
  out->Number(variable.index);
  out->Number(static_cast<uint64_t>(variable.offset));
}

ThreadVariable DecodeVariable(Reader* in) {
  ThreadVariable variable;
  variable.index = in->Number<uint64_t>();
  variable.offset = static_cast<int64_t>(in->Number<uint64_t>());
  return variable;
}

constexpr uint8_t kNoGradMode = 0xff;

void EncodeAutograd(const AutogradFacts& facts, Writer* out) {
  EncodeVariable(facts.sequence, out);
  EncodeVariable(facts.thread_number, out);
  EncodeVariable(facts.state, out);
  EncodeVariable(facts.state_set, out);
  out->Number(facts.grad_mode_offset.value_or(kNoGradMode));
  out->Number(facts.lowest_key);
  out->Number(facts.lowest_key_of_alias);
  out->Number(static_cast<uint8_t>(facts.has_rule));
  out->Number(static_cast<uint8_t>(facts.highest_only));
}

bool DecodeAutograd(Reader* in, AutogradFacts* facts) {
  facts->sequence = DecodeVariable(in);
  facts->thread_number = DecodeVariable(in);
  facts->state = DecodeVariable(in);
  facts->state_set = DecodeVariable(in);
  const uint8_t grad_mode = in->Number<uint8_t>();
  if (grad_mode != kNoGradMode) facts->grad_mode_offset = grad_mode;
  facts->lowest_key = in->Number<uint8_t>();
  facts->lowest_key_of_alias = in->Number<uint8_t>();
  facts->has_rule = in->Number<uint8_t>() != 0;
  facts->highest_only = in->Number<uint8_t>() != 0;
  return in->ok() && facts->lowest_key < 64 && facts->lowest_key_of_alias < 64;
}

void EncodeRow(const MadeRow& row, Writer* out) {
  out->Text(row.symbol);
  out->Text(row.literal);
  out->Number(static_cast<uint32_t>(row.probes.size()));
  for (const RowProbe& probe : row.probes) EncodeProbe(probe, out);
}

bool DecodeProbes(Reader* in, uint64_t file_bytes, std::vector<RowProbe>* probes) {
  const uint32_t count = in->Number<uint32_t>();
  if (!in->ok() || count > kMaxFunctions) return false;
  for (uint32_t i = 0; i < count; ++i) {
    if (!DecodeProbe(in, file_bytes, &probes->emplace_back())) return false;
  }
  return true;
}

}  // namespace

std::string EncodeFacts(std::string_view identity, const ModuleFacts& facts) {
  Writer out;
  out.Text(identity);
  out.Number(facts.dispatcher_slot);
  out.Number(facts.python_node_vtable);
  out.Number(facts.undefined_tensor);
  out.Number(static_cast<uint8_t>(facts.old_string_abi));
  out.Number(static_cast<uint8_t>(facts.is_python_binding));
  EncodeAutograd(facts.autograd, &out);
  out.Number(facts.callbacks_entry);
  out.Number(facts.callbacks_next);
  out.Number(static_cast<uint32_t>(facts.functions.size()));
  for (const ProbedFunction& function : facts.functions) EncodeFunction(function, &out);
  out.Number(static_cast<uint32_t>(facts.rows.size()));
  for (const MadeRow& row : facts.rows) EncodeRow(row, &out);
  out.Number(static_cast<uint32_t>(facts.row_ends.size()));
  for (const RowProbe& probe : facts.row_ends) EncodeProbe(probe, &out);
  out.Number(static_cast<uint32_t>(facts.gaps.size()));
  for (const PlanGap& gap : facts.gaps) {
    out.Text(gap.feature);
    out.Text(gap.reason);
  }
  return out.Take();
}

std::optional<ModuleFacts> DecodeFacts(std::string_view bytes, std::string_view identity,
                                       uint64_t file_bytes) {
  Reader in(bytes);
  if (in.Text() != identity || !in.ok()) return std::nullopt;
  ModuleFacts facts;
  facts.dispatcher_slot = in.Number<uint64_t>();
  facts.python_node_vtable = in.Number<uint64_t>();
  facts.undefined_tensor = in.Number<uint64_t>();
  facts.old_string_abi = in.Number<uint8_t>() != 0;
  facts.is_python_binding = in.Number<uint8_t>() != 0;
  if (!DecodeAutograd(&in, &facts.autograd)) return std::nullopt;
  facts.callbacks_entry = in.Number<uint64_t>();
  facts.callbacks_next = in.Number<uint64_t>();
  if (facts.callbacks_entry >= file_bytes || facts.callbacks_next >= file_bytes) {
    return std::nullopt;
  }
  const uint32_t functions = in.Number<uint32_t>();
  if (!in.ok() || functions > kMaxFunctions) return std::nullopt;
  for (uint32_t i = 0; i < functions; ++i) {
    ProbedFunction function;
    if (!DecodeFunction(&in, file_bytes, &function)) return std::nullopt;
    facts.functions.push_back(std::move(function));
  }
  const uint32_t rows = in.Number<uint32_t>();
  if (!in.ok() || rows > kMaxFunctions) return std::nullopt;
  for (uint32_t i = 0; i < rows; ++i) {
    MadeRow row;
    row.symbol = in.Text();
    row.literal = in.Text();
    if (!DecodeProbes(&in, file_bytes, &row.probes) || row.probes.empty()) return std::nullopt;
    facts.rows.push_back(std::move(row));
  }
  if (!DecodeProbes(&in, file_bytes, &facts.row_ends)) return std::nullopt;
  const uint32_t gaps = in.Number<uint32_t>();
  if (!in.ok() || gaps > kMaxFunctions) return std::nullopt;
  for (uint32_t i = 0; i < gaps && in.ok(); ++i) {
    PlanGap gap;
    gap.feature = in.Text();
    gap.reason = in.Text();
    facts.gaps.push_back(std::move(gap));
  }
  if (!in.ok() || !in.at_end()) return std::nullopt;
  return facts;
}

std::string SealEntry(std::string_view content) {
  std::string entry(kMagic, sizeof(kMagic));
  const auto put = [&entry](auto value) {
    entry.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  put(kVersion);
  put(uint32_t{0});
  put(static_cast<uint64_t>(content.size()));
  put(static_cast<uint64_t>(XXH3_64bits(content.data(), content.size())));
  entry.append(content);
  return entry;
}

std::optional<std::string_view> OpenEntry(std::string_view entry) {
  if (entry.size() < kHeaderBytes || std::memcmp(entry.data(), kMagic, sizeof(kMagic)) != 0) {
    return std::nullopt;
  }
  uint32_t version;
  uint64_t size;
  uint64_t checksum;
  std::memcpy(&version, entry.data() + 8, sizeof(version));
  std::memcpy(&size, entry.data() + 16, sizeof(size));
  std::memcpy(&checksum, entry.data() + 24, sizeof(checksum));
  const std::string_view content = entry.substr(kHeaderBytes);
  if (version != kVersion || size != content.size() ||
      checksum != XXH3_64bits(content.data(), content.size())) {
    return std::nullopt;
  }
  return content;
}

PlanCache::PlanCache(const std::string& directory) {
  if (directory.empty()) return;
  // Parents with the usual mode, the last component for us alone.
  for (size_t slash = directory.find('/', 1); slash != std::string::npos;
       slash = directory.find('/', slash + 1)) {
    mkdir(directory.substr(0, slash).c_str(), 0755);
  }
  mkdir(directory.c_str(), 0700);
  UniqueFd fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status;
  if (fd.valid() && fstat(fd.get(), &status) == 0 && IsOursAlone(status)) {
    directory_ = std::move(fd);
  }
}

std::optional<ModuleFacts> PlanCache::Load(const ElfFile& file) const {
  if (!usable()) return std::nullopt;
  const std::string identity = Identity(file);
  const UniqueFd fd(openat(directory_.get(), EntryName(identity).c_str(),
                           O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  struct stat status;
  if (!fd.valid() || fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      !IsOursAlone(status) || status.st_size <= 0 ||
      static_cast<uint64_t>(status.st_size) > kMaxEntryBytes) {
    return std::nullopt;
  }
  std::string entry(static_cast<size_t>(status.st_size), '\0');
  if (!ReadFully(fd.get(), entry.data(), entry.size())) return std::nullopt;
  const auto content = OpenEntry(entry);
  if (!content) return std::nullopt;
  return DecodeFacts(*content, identity, static_cast<uint64_t>(file.status().st_size));
}

void PlanCache::Store(const ElfFile& file, const ModuleFacts& facts) const {
  if (!usable()) return;
  const std::string identity = Identity(file);
  const std::string entry = SealEntry(EncodeFacts(identity, facts));
  const std::string name = EntryName(identity);
  const std::string temporary = absl::StrCat(name, ".", getpid(), ".tmp");
  if (entry.size() > kMaxEntryBytes) return;
  unlinkat(directory_.get(), temporary.c_str(), 0);
  const UniqueFd fd(openat(directory_.get(), temporary.c_str(),
                           O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd.valid()) return;
  if (!WriteFully(fd.get(), entry) ||
      renameat(directory_.get(), temporary.c_str(), directory_.get(), name.c_str()) != 0) {
    unlinkat(directory_.get(), temporary.c_str(), 0);
  }
}

}  // namespace proftrace
