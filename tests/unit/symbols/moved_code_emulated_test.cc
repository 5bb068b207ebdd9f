// Moved instructions against the original ones, in an emulator: made-up windows of every kind, and
// real ones of libraries of this machine, where also the registers that are called dead are put to
// the test.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "symbols/elf/landing_pads.h"
#include "symbols/elf/module_image.h"
#include "symbols/x86/disassembler.h"
#include "symbols/x86/liveness.h"
#include "symbols/x86/moved_code.h"
#include "symbols/x86/patch_windows.h"
#include "tests/unit/symbols/emulator.h"

namespace proftrace {
namespace {

using Random = std::mt19937_64;
using Bytes = std::vector<uint8_t>;

constexpr uint64_t kCode = 0x7f12'3456'7000;
constexpr uint64_t kData = kCode + 0x1000'0000;
constexpr uint64_t kDataBytes = 0x8000;
constexpr uint64_t kStack = 0x7f20'0000'4000;
constexpr size_t kMostPages = 400;

uint64_t Pick(Random& random, uint64_t count) { return random() % count; }

// Pointers into some data, numbers, and small numbers.
ProcessorState RandomState(Random& random) {
  ProcessorState state;
  for (uint64_t& value : state.general) {
    const uint64_t kind = Pick(random, 8);
    value = kind < 5   ? kData + 0x1000 + Pick(random, kDataBytes - 0x2000)
            : kind < 7 ? Pick(random, 64)
                       : random();
  }
  for (auto& value : state.vectors) value = {random(), random()};
  state.general[kRcx] = Pick(random, 8);  // how often strings are repeated
  state.general[kRsp] = kStack + Pick(random, 64) * 8;
  state.flags = random() & ~uint64_t{0x400};  // not backwards
  return state;
}

struct Run {
  bool refused = false;  // by the processor
  ProcessorState state;
  std::map<uint64_t, uint8_t> written;
};

// `size`: of the code, in which the run begins at its first byte.
Run RunUntil(Emulator* emulator, const ProcessorState& from, size_t size,
             const std::vector<uint64_t>& exits) {
  Run run;
  emulator->Set(from);
  run.refused = !emulator->RunUntil(from.address, exits);
  run.state = emulator->Get();
  // Some instructions it refuses without a word.
  run.refused |= run.state.address >= from.address && run.state.address < from.address + size;
  run.written = emulator->Written();
  emulator->Forget();
  return run;
}

// Where the code leads to; what is known only at run time is no code.
std::vector<uint64_t> ExitsOf(const Bytes& code, uint64_t address) {
  std::vector<uint64_t> exits = {address + code.size()};
  for (const Instruction& instruction : DecodeAll(code.data(), code.size(), address)) {
    const bool is_direct = instruction.kind == InstructionKind::kConditionalJump ||
                           instruction.kind == InstructionKind::kJump ||
                           instruction.kind == InstructionKind::kCall;
    if (is_direct) exits.push_back(instruction.target);
  }
  return exits;
}

std::string Hex(const Bytes& bytes) {
  return absl::BytesToHexString({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

// Where they differ; empty where they do not.
std::string Difference(const ProcessorState& a, const ProcessorState& b) {
  std::string text;
  for (size_t i = 0; i < a.general.size(); ++i) {
    if (a.general[i] != b.general[i]) {
      absl::StrAppendFormat(&text, " r%d: %x, %x", i, a.general[i], b.general[i]);
    }
    if (a.vectors[i] != b.vectors[i]) absl::StrAppendFormat(&text, " xmm%d", i);
  }
  if (a.flags != b.flags) absl::StrAppendFormat(&text, " flags: %x, %x", a.flags, b.flags);
  if (a.address != b.address) absl::StrAppendFormat(&text, " rip: %x, %x", a.address, b.address);
  return text;
}

class Comparison {
 public:
  // Runs both from the same state. False where the processor refuses the code.
  bool Compare(const Bytes& code, uint64_t address, uint64_t to, Random& random) {
    if (emulator_ == nullptr || emulator_->pages() > kMostPages) {
      emulator_ = std::make_unique<Emulator>();
    }
    const absl::StatusOr<Bytes> moved = MoveCode(code, address, to);
    EXPECT_TRUE(moved.ok()) << Hex(code) << ": " << moved.status();
    if (!moved.ok()) return false;
    EXPECT_LE(moved->size(), kMostMovedBytes);
    emulator_->Load(address, code);
    emulator_->Load(to, *moved);
    ProcessorState state = RandomState(random);
    state.address = address;
    const std::vector<uint64_t> exits = ExitsOf(code, address);
    // The emulator would not begin where it is to stop.
    if (std::find(exits.begin(), exits.end(), address) != exits.end()) return false;
    const Run original = RunUntil(emulator_.get(), state, code.size(), exits);
    state.address = to;
    const Run copy = RunUntil(emulator_.get(), state, moved->size(), exits);
    if (original.refused) return false;
    EXPECT_FALSE(copy.refused) << Hex(code) << " became " << Hex(*moved);
    const std::string what =
        absl::StrFormat(" where %s at %x became %s at %x", Hex(code), address, Hex(*moved), to);
    EXPECT_EQ(Difference(original.state, copy.state), "") << what;
    EXPECT_TRUE(copy.written == original.written) << what;
    return true;
  }

 private:
  std::unique_ptr<Emulator> emulator_;
};

// Which memory an instruction of that many bytes, whose displacement is to lie at `at`, names.
void PutDistance(Random& random, uint64_t next, size_t at, Bytes* bytes) {
  const auto distance =
      static_cast<int32_t>(kData + 0x1000 + Pick(random, kDataBytes - 0x2000) - next);
  std::memcpy(bytes->data() + at, &distance, 4);
}

bool IsPrefix(uint8_t byte) {
  constexpr uint8_t kPrefixes[] = {0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65,
                                   0x66, 0x67, 0xf0, 0xf2, 0xf3};
  return std::find(std::begin(kPrefixes), std::end(kPrefixes), byte) != std::end(kPrefixes);
}

// Not those whose result depends on when or where they run (clocks, random numbers, the state of
// the x87 with the place of its last instruction), nor popf, which may ask for single steps. Nor
// those that Unicorn 2.0.1 has wrong: shifts by cl and of two registers, whose flags it does not
// always set, enter, of whose writes it does not tell, and a REX prefix that another one follows,
// which it does not ignore.
bool IsSteady(const Bytes& bytes) {
  size_t at = 0;
  while (at + 1 < bytes.size() && IsPrefix(bytes[at])) ++at;
  if (at + 1 < bytes.size() && (bytes[at] & 0xf0) == 0x40) ++at;
  if (IsPrefix(bytes[at]) || (bytes[at] & 0xf0) == 0x40) return false;
  if (bytes[at] >= 0xd8 && bytes[at] <= 0xdf) return false;
  constexpr uint8_t kUnsteadyShort[] = {0x9d, 0xc8, 0xd2, 0xd3};
  if (std::find(std::begin(kUnsteadyShort), std::end(kUnsteadyShort), bytes[at]) !=
      std::end(kUnsteadyShort)) {
    return false;
  }
  if (bytes[at] != 0x0f || at + 1 == bytes.size()) return true;
  constexpr uint8_t kUnsteady[] = {0x01, 0x31, 0x33, 0xa2, 0xa4, 0xa5, 0xac, 0xad, 0xae, 0xc7};
  return std::find(std::begin(kUnsteady), std::end(kUnsteady), bytes[at + 1]) ==
         std::end(kUnsteady);
}

bool AreSteady(const Bytes& code) {
  const std::vector<Instruction> decoded = DecodeAll(code.data(), code.size(), 0);
  return std::all_of(decoded.begin(), decoded.end(), [](const Instruction& instruction) {
    return IsSteady(Bytes(instruction.bytes.begin(), instruction.bytes.begin() + instruction.size));
  });
}

// Where the displacement from the instruction pointer lies, if there is one.
std::optional<size_t> RelativeOffset(const Instruction& instruction) {
  const Disassembled* decoded = Disassembler::OfThread().Decode(instruction);
  if (decoded == nullptr) return std::nullopt;
  const cs_x86& x86 = decoded->operands();
  for (uint8_t i = 0; i < x86.op_count; ++i) {
    const cs_x86_op& operand = x86.operands[i];
    if (operand.type == X86_OP_MEM && operand.mem.base == X86_REG_RIP) {
      return x86.encoding.disp_offset;
    }
  }
  return std::nullopt;
}

// The one instruction that the bytes begin with, what it names relative to itself being data.
std::optional<Instruction> DecodeWithData(Random& random, uint64_t address, Bytes* bytes) {
  std::vector<Instruction> decoded = DecodeAll(bytes->data(), bytes->size(), address);
  if (decoded.empty()) return std::nullopt;
  bytes->resize(decoded[0].size);
  if (const auto offset = RelativeOffset(decoded[0])) {
    PutDistance(random, address + bytes->size(), *offset, bytes);
    decoded = DecodeAll(bytes->data(), bytes->size(), address);
  }
  if (decoded.size() != 1 || decoded[0].size != bytes->size()) return std::nullopt;
  return decoded[0];
}

// Any instruction that may be moved and does not end a window.
Bytes RandomPlain(Random& random, uint64_t address) {
  constexpr uint8_t kPrefixes[] = {0x66, 0xf2, 0xf3, 0xf0};
  for (;;) {
    Bytes bytes;
    if (Pick(random, 5) == 0) bytes.push_back(kPrefixes[Pick(random, std::size(kPrefixes))]);
    if (Pick(random, 2) == 0) bytes.push_back(static_cast<uint8_t>(0x40 | Pick(random, 16)));
    if (Pick(random, 3) == 0) bytes.push_back(0x0f);
    bytes.push_back(static_cast<uint8_t>(random()));
    const size_t modrm = bytes.size();
    bytes.push_back(static_cast<uint8_t>(random()));
    if (Pick(random, 3) == 0) bytes[modrm] = static_cast<uint8_t>((bytes[modrm] & 0x38) | 0x05);
    while (bytes.size() < kMaxInstructionBytes) {
      // Displacements and numbers are small mostly.
      bytes.push_back(Pick(random, 2) == 0 ? 0 : static_cast<uint8_t>(random()));
    }
    const auto decoded = DecodeWithData(random, address, &bytes);
    if (!decoded || decoded->kind == InstructionKind::kConditionalJump ||
        EndsStraightCode(*decoded) || !WhyNotMovable(*decoded).empty() || !IsSteady(bytes)) {
      continue;
    }
    return bytes;
  }
}

enum class LastKind {
  kPlain,
  kShortJcc,
  kLongJcc,
  kJump,
  kCall,
  kIndirectJump,
  kIndirectCall,
  kReturn
};

constexpr LastKind kLastKinds[] = {
    LastKind::kPlain, LastKind::kShortJcc,     LastKind::kLongJcc,      LastKind::kJump,
    LastKind::kCall,  LastKind::kIndirectJump, LastKind::kIndirectCall, LastKind::kReturn};

Bytes RandomLast(Random& random, uint64_t address, LastKind kind) {
  const auto byte = [&] { return static_cast<uint8_t>(random()); };
  // Short jumps that do not lead into the window.
  const auto far_byte = [&] { return static_cast<uint8_t>(32 + Pick(random, 64)); };
  switch (kind) {
    case LastKind::kPlain:
      return RandomPlain(random, address);
    case LastKind::kShortJcc:
      return {static_cast<uint8_t>(0x70 | Pick(random, 16)), far_byte()};
    case LastKind::kLongJcc:
      return {0x0f, static_cast<uint8_t>(0x80 | Pick(random, 16)), byte(), byte(), byte(), 0x02};
    case LastKind::kJump:
      if (Pick(random, 2) == 0) return {0xeb, far_byte()};
      return {0xe9, byte(), byte(), byte(), 0x03};
    case LastKind::kCall:
      return {0xe8, byte(), byte(), byte(), 0x01};
    case LastKind::kReturn:
      if (Pick(random, 2) == 0) return {0xc3};
      return {0xc2, static_cast<uint8_t>(Pick(random, 32) * 8), 0x00};
    case LastKind::kIndirectJump:
    case LastKind::kIndirectCall:
      break;
  }
  for (;;) {
    Bytes bytes;
    if (Pick(random, 3) == 0) bytes.push_back(static_cast<uint8_t>(0x40 | Pick(random, 16)));
    bytes.push_back(0xff);
    const size_t modrm = bytes.size();
    bytes.push_back(
        static_cast<uint8_t>((byte() & 0xc7) | (kind == LastKind::kIndirectCall ? 0x10 : 0x20)));
    for (int i = 0; i < 5; ++i) bytes.push_back(static_cast<uint8_t>(Pick(random, 0x40)));
    bytes.push_back(0);
    bytes.push_back(0);
    // Through the stack, as virtual calls of spilled pointers are.
    if (Pick(random, 4) == 0) {
      bytes[modrm] = static_cast<uint8_t>((bytes[modrm] & 0x38) | 0x44 | (Pick(random, 2) * 0xc0));
      bytes[modrm] = static_cast<uint8_t>((bytes[modrm] & 0x3f) | (Pick(random, 3) << 6));
      bytes[modrm + 1] = 0x24;
    }
    const auto decoded = DecodeWithData(random, address, &bytes);
    if (decoded && WhyNotMovable(*decoded).empty()) return bytes;
  }
}

TEST(MovedCodeEmulatedTest, MadeUpWindowsDoTheSameElsewhere) {
  Random random(20260731);
  std::map<LastKind, size_t> compared;
  constexpr size_t kEach = 2500;
  for (const LastKind kind : kLastKinds) {
    Comparison comparison;
    for (size_t i = 0; i < kEach; ++i) {
      const uint64_t address = kCode + i * 0x40 + Pick(random, 0x20);
      Bytes code;
      for (size_t plain = Pick(random, 4); plain > 0; --plain) {
        const Bytes next = Pick(random, 6) == 0
                               ? RandomLast(random, address + code.size(), LastKind::kShortJcc)
                               : RandomPlain(random, address + code.size());
        if (code.size() + next.size() > 30) break;
        code.insert(code.end(), next.begin(), next.end());
      }
      const Bytes last = RandomLast(random, address + code.size(), kind);
      code.insert(code.end(), last.begin(), last.end());
      const uint64_t to = kCode + 0x100'0000 + i * 0x80 + Pick(random, 0x20);
      compared[kind] += comparison.Compare(code, address, to, random) ? 1 : 0;
    }
    EXPECT_GT(compared[kind], kEach / 3) << static_cast<int>(kind);
  }
}

std::unique_ptr<ElfFile> OpenElf(const std::string& path) {
  auto file = ElfFile::Open(UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC)));
  return file.ok() ? std::move(*file) : nullptr;
}

std::string PathOf(const void* function) {
  Dl_info info;
  return dladdr(function, &info) == 0 ? "" : info.dli_fname;
}

struct Libraries {
  std::vector<std::string> paths;
  Libraries() {
    paths.push_back(PathOf(reinterpret_cast<void*>(&strtol)));
    paths.push_back(PathOf(reinterpret_cast<void*>(&std::uncaught_exceptions)));
    const std::string torch = "/usr/lib/x86_64-linux-gnu/libtorch_cpu.so";
    if (OpenElf(torch) != nullptr) paths.push_back(torch);
  }
};

// The whole code of a library's function, and where it would be in a process.
struct RealFunction {
  FunctionCode code;
  Bytes bytes;
};

// Functions in a fixed random order.
class RealLibrary {
 public:
  explicit RealLibrary(const std::string& path) : file_(OpenElf(path)) {
    if (file_ == nullptr) throw std::runtime_error("cannot read " + path);
    image_ = std::make_unique<ModuleImage>(file_.get(), ModuleImage::Symbols::kExported);
    file_->ForEachSymbol(false, [this](const ElfSymbol& symbol) {
      if (symbol.is_function && symbol.is_defined) starts_.push_back(symbol.address);
    });
    std::sort(starts_.begin(), starts_.end());
    starts_.erase(std::unique(starts_.begin(), starts_.end()), starts_.end());
  }

  std::optional<RealFunction> Pick(Random& random) const {
    const uint64_t start = starts_[random() % starts_.size()];
    const auto range = image_->UnwindRangeAt(start);
    if (!range) return std::nullopt;
    auto code = FunctionCode::Read(*image_, range->start, range->end);
    if (!code.ok()) return std::nullopt;
    const auto pads = ReadLandingPads(*file_, *image_->UnwindRecordAt(range->start));
    if (!pads.ok()) return std::nullopt;
    code->AddTargets(*pads);
    Bytes bytes(range->end - range->start);
    bytes.resize(image_->ReadCode(range->start, bytes.data(), bytes.size()));
    return RealFunction{*std::move(code), std::move(bytes)};
  }
  const ModuleImage& image() const { return *image_; }

 private:
  std::unique_ptr<ElfFile> file_;
  std::unique_ptr<ModuleImage> image_;
  std::vector<uint64_t> starts_;
};

// What a job's addresses look like.
constexpr uint64_t kBias = 0x7f40'0000'0000;

TEST(MovedCodeEmulatedTest, WindowsOfRealFunctionsDoTheSameElsewhere) {
  for (const std::string& path : Libraries().paths) {
    const RealLibrary library(path);
    Random random(815);
    Comparison comparison;
    size_t compared = 0;
    size_t with_call = 0;
    constexpr size_t kFunctions = 700;
    for (size_t i = 0; i < kFunctions && !::testing::Test::HasFailure(); ++i) {
      const auto function = library.Pick(random);
      if (!function) continue;
      for (int j = 0; j < 4; ++j) {
        const auto& all = function->code.instructions();
        const uint64_t point = all[random() % all.size()].address;
        const PointPatch patch = ChooseWindows(library.image(), function->code, {{point, {}}})[0];
        if (!patch.window) continue;
        Bytes code(patch.window->size);
        ASSERT_EQ(library.image().ReadCode(patch.window->address, code.data(), code.size()),
                  code.size());
        if (!AreSteady(code)) continue;
        const uint64_t address = patch.window->address + kBias;
        const uint64_t to = address - 0x2000'0000 + Pick(random, 0x1000'0000);
        const bool done = comparison.Compare(code, address, to, random);
        compared += done ? 1 : 0;
        with_call += done && patch.window->has_call ? 1 : 0;
      }
    }
    EXPECT_GT(compared, kFunctions) << path;
    EXPECT_GT(with_call, 20u) << path;
  }
}

// From a place on through the real function, up to where it calls, returns, leaves, or does what is
// not steady: once as it is, once with other values in everything that is said to be dead there.
class DeadnessCheck {
 public:
  DeadnessCheck(const RealLibrary& library, const RealFunction& function)
      : library_(library), code_(function.code) {
    emulator_.Load(code_.start() + kBias, function.bytes);
    for (const Instruction& instruction : code_.instructions()) {
      const Bytes bytes(instruction.bytes.begin(), instruction.bytes.begin() + instruction.size);
      const bool leaves =
          EndsStraightCode(instruction) && instruction.kind != InstructionKind::kJump;
      if (leaves || !IsSteady(bytes)) {
        ends_.push_back(instruction.address + kBias);
      }
      const bool is_outside =
          instruction.target < code_.start() || instruction.target >= code_.end();
      if (is_outside) stops_.push_back(instruction.target + kBias);
    }
    stops_.push_back(code_.end() + kBias);
    stops_.insert(stops_.end(), ends_.begin(), ends_.end());
  }

  // False where that tells nothing.
  bool Check(uint64_t address, Random& random) {
    const DeadRegisters dead = FindDeadRegisters(library_.image(), code_, address);
    ProcessorState state = RandomState(random);
    state.address = address + kBias;
    if (std::find(ends_.begin(), ends_.end(), state.address) != ends_.end()) return false;
    const auto first = Run(state);
    for (size_t i = 0; i < state.general.size(); ++i) {
      if ((dead.registers >> i & 1) != 0) state.general[i] = random();
    }
    if (!dead.flags_are_live) state.flags ^= random() & 0x8d5;
    const auto second = Run(state);
    if (!first || dead.registers == 0) return false;
    EXPECT_TRUE(second) << std::hex << address;
    if (!second) return false;
    EXPECT_EQ(first->state.address, second->state.address) << "from " << std::hex << address;
    EXPECT_TRUE(first->written == second->written) << "from " << std::hex << address;
    const RegisterSet wanted = WantedAt(first->state.address - kBias);
    for (size_t i = 0; i < state.general.size(); ++i) {
      if ((wanted >> i & 1) == 0) continue;
      EXPECT_EQ(first->state.general[i], second->state.general[i])
          << "r" << i << " at " << std::hex << first->state.address - kBias << " from " << address;
    }
    return true;
  }

 private:
  static constexpr size_t kMostInstructions = 300;
  static constexpr RegisterSet kKept = 0xf038;  // rbx, rsp, rbp, r12 to r15

  // Nothing where it does not come to an end of the function.
  std::optional<struct Run> Run(const ProcessorState& state) {
    struct Run run;
    emulator_.Set(state);
    run.refused = !emulator_.RunUntil(state.address, stops_, kMostInstructions);
    run.state = emulator_.Get();
    run.written = emulator_.Written();
    emulator_.Forget();
    const bool is_end = std::find(ends_.begin(), ends_.end(), run.state.address) != ends_.end();
    if (run.refused || !is_end) return std::nullopt;
    return run;
  }
  // The registers that are surely read behind that end.
  RegisterSet WantedAt(uint64_t address) const {
    const auto index = code_.IndexAt(address);
    const Instruction& end = code_.instructions()[*index];
    constexpr RegisterSet kRdiOnly = RegisterSet{1} << kRdi;
    switch (end.kind) {
      case InstructionKind::kReturn:
        return kKept | 1 << kRax | 1 << kRdx;
      case InstructionKind::kCall:
        return library_.image().CalleeName(end.target) == "__stack_chk_fail" ? kKept
                                                                             : kKept | kRdiOnly;
      default:
        return kKept;
    }
  }

  const RealLibrary& library_;
  const FunctionCode& code_;
  Emulator emulator_;
  std::vector<uint64_t> ends_;
  std::vector<uint64_t> stops_;  // the ends, and where the function's code is over
};

TEST(MovedCodeEmulatedTest, NothingReadsWhatIsDead) {
  for (const std::string& path : Libraries().paths) {
    const RealLibrary library(path);
    Random random(4711);
    size_t compared = 0;
    constexpr size_t kFunctions = 250;
    for (size_t i = 0; i < kFunctions && !::testing::Test::HasFailure(); ++i) {
      const auto function = library.Pick(random);
      if (!function) continue;
      DeadnessCheck check(library, *function);
      for (int j = 0; j < 12; ++j) {
        const auto& all = function->code.instructions();
        compared += check.Check(all[random() % all.size()].address, random) ? 1 : 0;
      }
    }
    EXPECT_GT(compared, kFunctions) << path;
  }
}

}  // namespace
}  // namespace proftrace
