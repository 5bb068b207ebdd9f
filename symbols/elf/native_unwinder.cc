#include "symbols/elf/native_unwinder.h"

#include <elfutils/libdwfl.h>

#include <algorithm>
#include <array>
#include <utility>

#include "symbols/process/process_maps.h"
#include "userspace/base/byte_view.h"
#include "userspace/base/clock.h"

namespace proftrace {
namespace {

// The shortest time between two looks at the maps of a process that maps new files.
constexpr int64_t kBetweenLooksNs = 200'000'000;

// The numbers of registers in DWARF (System V ABI, AMD64 supplement, figure 3.36).
constexpr int kRegisterBx = 3;
constexpr int kRegisterBp = 6;
constexpr int kRegisterSp = 7;
constexpr int kRegister12 = 12;

// The data of the callbacks of libdwfl, for one sample at a time.
struct Moment {
  Pid pid{};
  const std::vector<MappedFile>* files = nullptr;
  NativeSymbols* symbols = nullptr;
  const abi::pt_user_registers* registers = nullptr;
  std::span<const uint8_t> stack;
  std::vector<uint64_t> addresses;
  bool has_left_stack = false;  // libdwfl asked for memory that was not copied
};

bool ReadStack(Dwfl*, Dwarf_Addr address, Dwarf_Word* word, void* argument) {
  auto* moment = static_cast<Moment*>(argument);
  // For an address below the stack pointer, the difference wraps around and is larger than any
  // stack.
  const auto found = ByteView(moment->stack).Get<Dwarf_Word>(address - moment->registers->sp);
  if (!found) {
    moment->has_left_stack = true;
    return false;
  }
  *word = *found;
  return true;
}

bool SetRegisters(Dwfl_Thread* thread, void* argument) {
  const abi::pt_user_registers& registers = *static_cast<const Moment*>(argument)->registers;
  const Dwarf_Word bx = registers.bx;
  const std::array<Dwarf_Word, 2> frame = {registers.bp, registers.sp};
  const std::array<Dwarf_Word, 4> others = {registers.r12, registers.r13, registers.r14,
                                            registers.r15};
  static_assert(kRegisterSp == kRegisterBp + 1);
  dwfl_thread_state_register_pc(thread, registers.ip);
  return dwfl_thread_state_registers(thread, kRegisterBx, 1, &bx) &&
         dwfl_thread_state_registers(thread, kRegisterBp, frame.size(), frame.data()) &&
         dwfl_thread_state_registers(thread, kRegister12, others.size(), others.data());
}

pid_t NextThread(Dwfl*, void* argument, void** thread_argument) {
  if (*thread_argument != nullptr) return 0;
  *thread_argument = argument;
  return static_cast<pid_t>(Raw(static_cast<const Moment*>(argument)->pid));
}

bool GetThread(Dwfl*, pid_t, void* argument, void** thread_argument) {
  *thread_argument = argument;
  return true;
}

int AddFrame(Dwfl_Frame* frame, void* argument) {
  auto* moment = static_cast<Moment*>(argument);
  Dwarf_Addr pc = 0;
  bool is_activation = false;
  if (!dwfl_frame_pc(frame, &pc, &is_activation) || pc == 0) return DWARF_CB_ABORT;
  moment->addresses.push_back(is_activation ? pc : pc - 1);
  return moment->addresses.size() < NativeUnwinder::kMostFrames ? DWARF_CB_OK : DWARF_CB_ABORT;
}

const Dwfl_Thread_Callbacks kThreadCallbacks = {NextThread,   GetThread, ReadStack,
                                                SetRegisters, nullptr,   nullptr};

// Finds the file that is mapped at `base`. `user`: the Moment.
int FindElf(Dwfl_Module*, void** user, const char*, Dwarf_Addr base, char** file_name, Elf** elf) {
  const auto* moment = static_cast<const Moment*>(*user);
  if (moment == nullptr) return -1;
  for (const MappedFile& file : *moment->files) {
    const bool is_it = std::any_of(
        file.mappings.begin(), file.mappings.end(),
        [base](const Mapping& mapping) { return mapping.start <= base && base < mapping.end; });
    if (!is_it) continue;
    *elf = moment->symbols->ElfOf(moment->pid, file);
    if (*elf != nullptr) *file_name = strdup(file.path.c_str());
    return -1;
  }
  return -1;
}

// Finds nothing, so that libdwfl looks for no debug information, least of all in a network.
int FindNoDebugInfo(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*,
                    GElf_Word, char**) {
  return -1;
}

const Dwfl_Callbacks kCallbacks = {FindElf, FindNoDebugInfo, nullptr, nullptr};

struct DwflDeleter {
  void operator()(Dwfl* dwfl) const { dwfl_end(dwfl); }
};

}  // namespace

struct NativeUnwinder::Impl {
  Pid pid{};
  std::unique_ptr<Dwfl, DwflDeleter> dwfl;
  std::vector<MappedFile> files;
  Moment moment;
  int64_t next_look_ns = 0;
  NativeSymbols* symbols = nullptr;
  uint64_t generation = 0;

  absl::Status Look() {
    next_look_ns = MonotonicNs() + kBetweenLooksNs;
    absl::StatusOr<std::vector<Mapping>> mappings = ReadMaps(pid);
    if (!mappings.ok()) return mappings.status();
    files = GroupByFile(*mappings);
    ++generation;
    // All modules are reported anew, because libdwfl does not accept that a module has moved.
    dwfl.reset(dwfl_begin(&kCallbacks));
    moment.pid = pid;
    moment.files = &files;
    moment.symbols = symbols;
    if (dwfl == nullptr) return absl::InternalError(dwfl_errmsg(-1));
    dwfl_report_begin(dwfl.get());
    for (const MappedFile& file : files) {
      if (file.inode == 0) continue;
      const MemoryRange range = symbols->LoadedRange(pid, file);
      Dwfl_Module* module = dwfl_report_module(dwfl.get(), file.path.c_str(), range.address,
                                               range.address + range.bytes);
      if (module == nullptr) continue;
      void** user = nullptr;
      dwfl_module_info(module, &user, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
      if (user != nullptr) *user = &moment;
    }
    dwfl_report_end(dwfl.get(), nullptr, nullptr);
    // libdwfl only needs to know the processor, which it finds in the head of any file.
    Dwarf_Addr bias = 0;
    for (const MappedFile& file : files) {
      Dwfl_Module* module = dwfl_addrmodule(dwfl.get(), symbols->LoadedRange(pid, file).address);
      Elf* elf = module == nullptr ? nullptr : dwfl_module_getelf(module, &bias);
      if (elf == nullptr) continue;
      if (dwfl_attach_state(dwfl.get(), elf, static_cast<pid_t>(Raw(pid)), &kThreadCallbacks,
                            &moment)) {
        return absl::OkStatus();
      }
    }
    return absl::FailedPreconditionError("no file of the process could be read");
  }

  const MappedFile* FileAt(uint64_t address) const {
    for (const MappedFile& file : files) {
      for (const Mapping& mapping : file.mappings) {
        if (mapping.start <= address && address < mapping.end) return &file;
      }
    }
    return nullptr;
  }
};

NativeUnwinder::NativeUnwinder(Pid pid, NativeSymbols* symbols) : impl_(std::make_unique<Impl>()) {
  impl_->pid = pid;
  impl_->symbols = symbols;
}
NativeUnwinder::~NativeUnwinder() = default;

absl::StatusOr<std::unique_ptr<NativeUnwinder>> NativeUnwinder::Create(Pid pid,
                                                                       NativeSymbols* symbols) {
  std::unique_ptr<NativeUnwinder> unwinder(new NativeUnwinder(pid, symbols));
  if (absl::Status status = unwinder->impl_->Look(); !status.ok()) return status;
  return unwinder;
}

std::vector<uint64_t> NativeUnwinder::Unwind(const abi::pt_user_registers& registers,
                                             std::span<const uint8_t> stack, bool* is_whole) {
  Impl& impl = *impl_;
  *is_whole = false;
  for (int tries = 0; tries < 2; ++tries) {
    if (impl.dwfl == nullptr) return {};
    impl.moment.registers = &registers;
    impl.moment.stack = stack;
    impl.moment.addresses.clear();
    impl.moment.has_left_stack = false;
    // The result is 0 where the outermost frame was reached, and also where memory could not be
    // read.
    *is_whole = dwfl_getthread_frames(impl.dwfl.get(), static_cast<pid_t>(Raw(impl.pid)), AddFrame,
                                      &impl.moment) == 0 &&
                !impl.moment.has_left_stack;
    const std::vector<uint64_t>& found = impl.moment.addresses;
    const uint64_t last = found.empty() ? registers.ip : found.back();
    // The last frame may be in a library that was loaded since the last look.
    if (*is_whole || impl.FileAt(last) != nullptr || MonotonicNs() < impl.next_look_ns) break;
    if (!impl.Look().ok()) break;
  }
  return impl.moment.addresses;
}

NativeFunction NativeUnwinder::FunctionAt(uint64_t address) {
  const MappedFile* file = impl_->FileAt(address);
  if (file == nullptr) return {};
  return {impl_->symbols->NameAt(impl_->pid, *file, address), file->path};
}

uint64_t NativeUnwinder::generation() const { return impl_->generation; }

}  // namespace proftrace
