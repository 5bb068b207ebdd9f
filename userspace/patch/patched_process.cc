#include "userspace/patch/patched_process.h"

#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <set>
#include <utility>

#include "bpf/abi/patch_memory.h"
#include "symbols/plan/process.h"
#include "symbols/process/process_maps.h"
#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/foreign_memory.h"
#include "userspace/inject/filter_kinship.h"
#include "userspace/inject/injection_calls.h"
#include "userspace/inject/loader_places.h"
#include "userspace/inject/remote_calls.h"
#include "userspace/inject/seccomp_filter.h"
#include "userspace/inject/standstill.h"
#include "userspace/inject/stopped_threads.h"
#include "userspace/patch/python_end.h"
#include "userspace/patch/ring_file.h"
#include "userspace/patch/ring_room.h"

namespace proftrace {
namespace {

constexpr char kTaken[] = "the memory near the code was taken meanwhile";
constexpr uint64_t kMapFixedNoReplace = 0x100000;
constexpr uint64_t kMemfdFlags = 1 | 2;   // MFD_CLOEXEC | MFD_ALLOW_SEALING
constexpr uint64_t kMemfdNoexecSeal = 8;  // Linux 6.3: where sysctl vm.memfd_noexec demands it
// How many bytes of a thread control block are searched for the thread's number.
constexpr size_t kControlBlockBytes = 2304;
// How many jumps may be announced for libraries that are mapped later: enough for all rows of
// torchvision, torchaudio and similar libraries.
constexpr uint64_t kMostLateJumps = 1u << 15;

absl::Status Refused(const char* what, int64_t result) {
  return Fail(ExitCode::kNotPermitted, std::string("the kernel refused it ") + what + ": " +
                                           ErrnoText(static_cast<int>(-result)));
}

constexpr uint64_t kReadWrite = PROT_READ | PROT_WRITE;
// The system calls that proftrace has a thread of the job make.
constexpr FilteredCall kCalls[] = {
    {SYS_mmap, "mmap", {0, 4096, kReadWrite, MAP_PRIVATE | MAP_ANONYMOUS, kNoFile, 0}},
    {SYS_mmap, "mmap of shared memory", {0, 4096, kReadWrite, MAP_SHARED, 3, 0}},
    {SYS_mprotect, "mprotect", {0, 4096, PROT_READ | PROT_EXEC, 0, 0, 0}},
    {SYS_madvise, "madvise", {0, 4096, MADV_WIPEONFORK, 0, 0, 0}},
    {SYS_madvise, "madvise", {0, 4096, MADV_DONTNEED, 0, 0, 0}},
    {SYS_munmap, "munmap", {0, 4096, 0, 0, 0, 0}},
    {SYS_memfd_create, "memfd_create", {0, kMemfdFlags, 0, 0, 0, 0}},
    {SYS_close, "close", {3, 0, 0, 0, 0, 0}},
    {SYS_rt_sigreturn, "rt_sigreturn", {}},
    // The kernel makes this call itself, where the stopped thread was waiting.
    {SYS_restart_syscall, "restart_syscall", {}},
};

// Returns a thread's number in its own PID namespace.
uint32_t OwnNumber(Pid pid, int tid) {
  const std::string status = ReadSmallFile(
      "/proc/" + std::to_string(Raw(pid)) + "/task/" + std::to_string(tid) + "/status", 4096);
  const std::string_view numbers = StatusValue(status, "NSpid");
  const size_t space = numbers.find_last_of("\t ");
  return static_cast<uint32_t>(
      std::strtoul(std::string(numbers.substr(space + 1)).c_str(), nullptr, 10));
}

// Returns the offset at which glibc keeps a thread's number: two words before the list of robust
// futexes, whose address the kernel knows.
int32_t GlibcTidOffset(const StoppedThread& thread) {
  uint64_t list = 0;
  size_t bytes = 0;
  if (syscall(SYS_get_robust_list, thread.tid, &list, &bytes) != 0) return -1;
  const uint64_t offset = list - 16 - thread.registers.fs_base;
  return offset < kControlBlockBytes ? static_cast<int32_t>(offset) : -1;
}

// Returns the offset from a thread's control block to the thread's number, which every libc keeps
// there. Returns -1 if the offset is not known: a small number, such as that of a container's first
// process, may stand at other places as well.
int32_t FindTidOffset(Pid pid, const WritableMemory& memory,
                      const std::vector<StoppedThread>& threads) {
  std::set<int32_t> places;
  bool is_first = true;
  for (const StoppedThread& thread : threads) {
    if (thread.is_gone || thread.registers.fs_base == 0) continue;
    std::array<uint32_t, kControlBlockBytes / 4> block{};
    if (!memory.Read(thread.registers.fs_base, block.data(), sizeof(block))) continue;
    const uint32_t number = OwnNumber(pid, thread.tid);
    std::set<int32_t> here;
    for (size_t i = 0; i < block.size(); ++i) {
      const auto offset = static_cast<int32_t>(i * 4);
      if (block[i] == number && (is_first || places.contains(offset))) here.insert(offset);
    }
    places = std::move(here);
    is_first = false;
  }
  if (places.size() == 1) return *places.begin();
  for (const StoppedThread& thread : threads) {
    const int32_t offset = thread.is_gone ? -1 : GlibcTidOffset(thread);
    if (places.contains(offset)) return offset;
  }
  return -1;
}

absl::Status Gone() { return Fail(ExitCode::kNoTarget, "it has ended, or runs another program"); }

absl::Status NotPutBack() {
  return absl::InternalError(
      "not all of its code could be put back, as something else has changed it where jumps are; "
      "the "
      "memory that they lead to stays mapped");
}

absl::Status NoMoment(Pid pid, const std::string& reason) {
  if (const auto still = FindStandstill(pid); still.has_value()) {
    return Fail(ExitCode::kHostUnfit,
                absl::StrCat(still->sentence,
                             ", then record again: jumps are put in and taken out "
                             "by its own threads"));
  }
  return Fail(ExitCode::kHostUnfit,
              absl::StrCat("PID ", Raw(pid), " had no moment at which its code could be changed (",
                           reason, "); try again"));
}

bool HasShadowStack(Pid pid) {
  const std::string status = ReadSmallFile("/proc/" + std::to_string(Raw(pid)) + "/status", 8192);
  return StatusValue(status, "x86_Thread_features").find("shstk") != std::string_view::npos;
}

// Removes the spots whose window has a call, and all spots of their groups.
void RemoveMovedCalls(std::vector<PatchSpot>* spots) {
  std::set<uint32_t> groups;
  for (const PatchSpot& spot : *spots) {
    if (spot.window.has_call && spot.group != 0) groups.insert(spot.group);
  }
  std::erase_if(*spots, [&groups](const PatchSpot& spot) {
    return spot.window.has_call || groups.contains(spot.group);
  });
}

}  // namespace

void PrepareSpots(Pid pid, std::vector<PatchSpot>* spots) {
  std::sort(spots->begin(), spots->end(),
            [](const PatchSpot& a, const PatchSpot& b) { return a.address() < b.address(); });
  if (HasShadowStack(pid)) RemoveMovedCalls(spots);
}

absl::Status CheckPatchable(Pid pid) {
  if (absl::Status status = CheckTimeStampCounter(); !status.ok()) return status;
  const absl::StatusOr<WritableMemory> memory = WritableMemory::Open(pid);
  if (!memory.ok()) return memory.status();
  const std::string status = ReadSmallFile("/proc/" + std::to_string(Raw(pid)) + "/status", 8192);
  if (const std::string_view tracer = StatusValue(status, "TracerPid"); tracer != "0") {
    return Fail(ExitCode::kNotPermitted, "PID " + std::string(tracer) + " traces it already");
  }
  const absl::StatusOr<std::vector<Mapping>> mappings = ReadMaps(pid);
  if (!mappings.ok()) return mappings.status();
  if (FindRingMapping(*mappings).has_value()) {
    return Fail(ExitCode::kNotPermitted,
                "it has jumps already: another proftrace records it, or was killed ("
                "'proftrace clean' takes out what that has left)");
  }
  if (absl::Status filters = CheckFiltersUnseen(pid, kCalls); !filters.ok()) return filters;
  return FindLoaderPlaces(pid, *mappings).status();
}

absl::StatusOr<std::unique_ptr<PatchedProcess>> PatchedProcess::Attach(
    Pid pid, std::vector<PatchSpot> spots, const PatchRingOptions& ring,
    PatchRing::ThreadNumber thread_number, StoppedThreads* held) {
  if (absl::Status status = CheckTimeStampCounter(); !status.ok()) return status;
  absl::StatusOr<WritableMemory> memory = WritableMemory::Open(pid);
  if (!memory.ok()) return memory.status();
  // The threads of a frozen process would be waited for in vain.
  if (const auto still = FindStandstill(pid);
      still.has_value() && still->kind == StandstillKind::kFrozen) {
    return NoMoment(pid, "");
  }
  absl::StatusOr<TargetLock> lock = TargetLock::Take(pid);
  if (!lock.ok()) return lock.status();
  std::unique_ptr<PatchedProcess> process(new PatchedProcess(pid, *std::move(memory)));
  process->lock_ = *std::move(lock);
  absl::Status status;
  for (int tries = 0; tries < kMostPlacings; ++tries) {
    const absl::StatusOr<TargetLock> code = TargetLock::TakeForJumps(pid);
    if (!code.ok()) return code.status();
    status = process->Start(spots, ring, thread_number, held);
    if (status.ok()) return process;
    if (held != nullptr) held->Release();  // to make the calls that take everything out
    held = nullptr;
    absl::Status left = process->TakeOut();
    if (left.ok()) left = process->TakeOutUnseen();
    if (!left.ok()) {
      const std::string both = absl::StrCat(status.message(), "; ", left.message());
      return absl::IsUnavailable(status) ? NoMoment(pid, both) : Fail(ExitCodeOf(status), both);
    }
    if (!absl::IsAborted(status)) break;
    absl::StatusOr<WritableMemory> again = WritableMemory::Open(pid);
    if (!again.ok()) return again.status();
    TargetLock kept = std::move(process->lock_);
    process.reset(new PatchedProcess(pid, *std::move(again)));
    process->lock_ = std::move(kept);
  }
  return absl::IsUnavailable(status) ? NoMoment(pid, std::string(status.message())) : status;
}

PatchedProcess::~PatchedProcess() { (void)Detach(); }

absl::Status PatchedProcess::Start(std::vector<PatchSpot> spots, const PatchRingOptions& ring,
                                   PatchRing::ThreadNumber thread_number, StoppedThreads* held) {
  if (const absl::StatusOr<bool> left = RemoveLeft(pid_, nullptr); !left.ok()) {
    return left.status();
  }
  const absl::StatusOr<std::vector<Mapping>> mappings = ReadMaps(pid_);
  if (!mappings.ok()) return mappings.status();
  const absl::StatusOr<LoaderPlaces> places = FindLoaderPlaces(pid_, *mappings);
  if (!places.ok()) return places.status();
  system_calls_ = places->system_calls;
  PrepareSpots(pid_, &spots);
  code_.SetTables(RecorderTables(ring.places, ring.signatures), ring.node_signature);
  code_.PlaceRegions(std::move(spots), *mappings);
  (void)code_.SetFacts(ring.facts);
  if (code_.regions().empty()) {
    return Fail(ExitCode::kHostUnfit, "there is no place in it that a jump can be put at");
  }
  PatchRingOptions options = ring;
  options.pid = pid_;
  if (options.python.has_value()) python_end_ = options.python->end;
  filters_ = options.filters = FiltersOfAllThreads(pid_);
  UniqueFd memory;
  if (absl::Status status = MapAll(&options, &memory, held); !status.ok()) return status;
  absl::StatusOr<std::unique_ptr<PatchRing>> made =
      PatchRing::Make(memory, options, std::move(thread_number));
  if (!made.ok()) return made.status();
  ring_ = *std::move(made);
  if (absl::Status status = code_.WriteTrampolines(); !status.ok()) return status;
  const auto inside_jump = [this](uint64_t address) { return code_.IsInsideJump(address); };
  absl::Status status = AtQuietMoment(
      pid_, memory_, inside_jump,
      [this](QuietMoment*) {
        report_.jumps = code_.WriteJumps();
        const std::vector<size_t> written = code_.WrittenSpots();
        if (std::any_of(written.begin(), written.end(),
                        [this](size_t i) { return IsPythonEnd(code_.spots()[i]); })) {
          ring_->LetReadStacks();
        }
        ring_->LetWrite(kPatchLeaseNs);
        return code_.Publish(ring_address_)
                   ? absl::OkStatus()
                   : absl::UnavailableError("its memory cannot be written");
      },
      &report_.attach, held);
  report_.trampoline_bytes = code_.trampoline_bytes();
  for (const PatchedCode::Refusal& refusal : code_.refused()) {
    report_.refused.push_back({refusal.spot, refusal.reason});
  }
  return status;
}

absl::StatusOr<RemoteCalls> PatchedProcess::BeginCalls(StoppedThreads* threads, int64_t* begin_ns,
                                                       int32_t* tid_offset) {
  absl::Status status;
  if (threads->threads().empty()) {
    status = threads->StopOne(MonotonicNs() + kOneStopLimitNs);
  }
  *begin_ns = MonotonicNs();
  if (!status.ok()) return status;
  const StoppedThread& thread = threads->threads().front();
  status = CheckSeccompOf(pid_, thread.tid, kCalls, system_calls_.call);
  if (!status.ok()) return status;
  *tid_offset = FindTidOffset(pid_, memory_, threads->threads());
  if (*tid_offset < 0) {
    return Fail(ExitCode::kHostUnfit,
                "its libc keeps the numbers of threads at a place that is not known");
  }
  return RemoteCalls::Begin(thread, memory_, system_calls_);
}

absl::Status PatchedProcess::MapAll(PatchRingOptions* options, UniqueFd* memory,
                                    StoppedThreads* held) {
  for (const PatchedCode::Region& region : code_.regions()) {
    options->regions.push_back(region.range);
  }
  options->jumps = code_.JumpAddresses();
  options->more_jumps = kMostLateJumps;
  if (absl::Status status = FitRing(pid_, options); !status.ok()) return status;
  ring_bytes_ = PatchRing::Bytes(*options);
  if (held != nullptr) return MapAllBy(held, options, memory);
  return StoppedThreads::Use(pid_, [this, options, memory](StoppedThreads* threads) {
    return MapAllBy(threads, options, memory);
  });
}

absl::Status PatchedProcess::MapAllBy(StoppedThreads* threads, PatchRingOptions* options,
                                      UniqueFd* memory) {
  const Hurry hurry;
  int64_t begin_ns = 0;
  absl::StatusOr<RemoteCalls> calls = BeginCalls(threads, &begin_ns, &options->tid_offset);
  if (!calls.ok()) return calls.status();
  absl::Status status = MakeRingFile(&*calls, *options, memory);
  for (PatchedCode::Region& region : code_.regions()) {
    const uint64_t locked = LockedBytes(pid_);
    if (status.ok()) status = MapRegion(&*calls, code_, &region);
    // If the process locks all memory that it maps, the kernel would make the whole ring resident
    // and lock it, while the thread is held.
    if (status.ok() && LockedBytes(pid_) >= locked + region.range.bytes) {
      status = LocksAll(ring_bytes_);
    }
  }
  if (status.ok()) status = MapRing(&*calls);
  options->address = ring_address_;
  report_.held_ns = MonotonicNs() - begin_ns;
  return status;
}

absl::Status PatchedProcess::MakeRingFile(RemoteCalls* calls, const PatchRingOptions& options,
                                          UniqueFd* memory) {
  const uint64_t name = calls->scratch_address();
  if (!memory_.Write(name, kRingName, sizeof(kRingName))) {
    return absl::UnavailableError("its memory cannot be written");
  }
  absl::StatusOr<int64_t> fd = calls->Call(SYS_memfd_create, {name, kMemfdFlags, 0, 0, 0, 0});
  if (fd.ok() && *fd == -EACCES) {
    fd = calls->Call(SYS_memfd_create, {name, kMemfdFlags | kMemfdNoexecSeal, 0, 0, 0, 0});
  }
  if (!fd.ok()) return fd.status();
  if (*fd < 0) return Refused("a memfd", *fd);
  descriptors_.push_back(static_cast<int>(*fd));
  *memory = CopyDescriptor(Raw(pid_), static_cast<int>(*fd));
  if (!memory->valid()) {
    return Fail(ExitCode::kNotPermitted, "a file of it cannot be shared: " + ErrnoText(errno));
  }
  constexpr MemoryRules kNewRing = {
      .name = kRingName,
      .forbidden_seals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL};
  if (!WhyNotMemory(memory->get(), kNewRing).empty()) {
    descriptors_.clear();
    return absl::UnavailableError("it closed a descriptor that it had not opened");
  }
  if (ftruncate(memory->get(), static_cast<off_t>(ring_bytes_)) != 0 ||
      fcntl(memory->get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0 ||
      !AnnounceRing(memory->get(), options)) {
    return Fail(ExitCode::kHostUnfit, "the ring cannot be made: " + ErrnoText(errno));
  }
  return absl::OkStatus();
}

absl::Status PatchedProcess::MapRegion(RemoteCalls* calls, const PatchedCode& code,
                                       PatchedCode::Region* region) {
  const AddressRange& range = region->range;
  absl::StatusOr<int64_t> result = calls->Call(
      SYS_mmap, {range.address, range.bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | kMapFixedNoReplace, kNoFile, 0});
  region->may_be_mapped = !result.ok();
  if (!result.ok()) return result.status();
  if (*result == -EEXIST) return absl::AbortedError(kTaken);
  if (*result == -EAGAIN && LockedBytes(pid_) > 0) return LocksAll(ring_bytes_);
  if (*result < 0) return Refused("memory", *result);
  if (static_cast<uint64_t>(*result) != range.address) {  // before Linux 4.17: only a hint
    (void)calls->Call(SYS_munmap, {static_cast<uint64_t>(*result), range.bytes, 0, 0, 0, 0});
    return absl::AbortedError(kTaken);
  }
  region->is_mapped = true;
  if (!code.Claim(*region)) return absl::UnavailableError("its memory cannot be written");
  result = calls->Call(SYS_mprotect,
                       {range.address + PATCH_CONTROL_BYTES, range.bytes - PATCH_CONTROL_BYTES,
                        PROT_READ | PROT_EXEC, 0, 0, 0});
  if (!result.ok()) return result.status();
  if (*result < 0) return Refused("memory for code", *result);
  result = calls->Call(SYS_madvise, {range.address, PATCH_CONTROL_BYTES, MADV_WIPEONFORK, 0, 0, 0});
  if (!result.ok()) return result.status();
  return *result < 0 ? Refused("memory that forks do not inherit", *result) : absl::OkStatus();
}

absl::Status PatchedProcess::MapRing(RemoteCalls* calls) {
  const auto fd = static_cast<uint64_t>(descriptors_.front());
  const absl::StatusOr<int64_t> result = calls->Call(
      SYS_mmap, {0, ring_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0});
  if (!result.ok()) return result.status();
  if (*result < 0) return Refused("the ring", *result);
  ring_address_ = static_cast<uint64_t>(*result);
  const absl::StatusOr<int64_t> closed = calls->Call(SYS_close, {fd, 0, 0, 0, 0, 0});
  if (!closed.ok()) return closed.status();
  descriptors_.clear();
  return absl::OkStatus();
}

absl::Status PatchedProcess::UnmapAll(QuietMoment* moment, PatchedCode* code) {
  // The thread may have got a seccomp filter since the attach.
  const absl::StatusOr<StoppedThread> thread =
      moment->ReleaseAllButOne([this](const StoppedThread& one) {
        if (filters_ == SeccompFilterCount(pid_, one.tid)) return absl::OkStatus();
        return CheckRemovalCalls(pid_, one.tid, system_calls_.call);
      });
  if (ExitCodeOf(thread.status()) == ExitCode::kNotPermitted) {
    return Fail(ExitCode::kNotPermitted, "the memory that its jumps led to stays mapped: " +
                                             std::string(thread.status().message()));
  }
  if (!thread.ok()) return thread.status();
  absl::StatusOr<RemoteCalls> calls = RemoteCalls::Begin(*thread, memory_, system_calls_);
  if (!calls.ok()) return calls.status();
  // The ring goes last, because a later run finds the rest by it.
  for (const AddressRange& run : code->RestoredRuns()) {
    (void)calls->Call(SYS_madvise, {run.address, run.bytes, MADV_DONTNEED, 0, 0, 0});
  }
  code->SeeWhatIsMapped();
  for (PatchedCode::Region& region : code->regions()) {
    if (!region.is_mapped) continue;
    (void)calls->Call(SYS_munmap, {region.range.address, region.range.bytes, 0, 0, 0, 0});
    region.is_mapped = false;
  }
  if (code != &code_) return absl::OkStatus();
  if (ring_address_ != 0) {
    (void)calls->Call(SYS_munmap, {ring_address_, ring_bytes_, 0, 0, 0, 0});
    ring_address_ = 0;
  }
  for (const int descriptor : descriptors_) {
    // The process may have closed the descriptor and opened another file under its number.
    if (!IsRingDescriptor(pid_, descriptor)) continue;
    (void)calls->Call(SYS_close, {static_cast<uint64_t>(descriptor), 0, 0, 0, 0, 0});
  }
  descriptors_.clear();
  return absl::OkStatus();
}

absl::Status PatchedProcess::Detach() {
  // The threads of a frozen process could not make the system calls: each call would wait until the
  // process is thawed.
  if (const auto still = FindStandstill(pid_);
      still.has_value() && still->kind == StandstillKind::kFrozen) {
    return Fail(ExitCode::kHostUnfit, still->sentence);
  }
  absl::Status status = TakeOut();
  if (status.ok() && lock_.is_held()) status = TakeOutUnseen();
  if (status.ok()) lock_ = TargetLock();
  return status;
}

absl::Status PatchedProcess::TakeOutUnseen() const {
  const absl::Status status = RemoveLeft(pid_, nullptr).status();
  return ExitCodeOf(status) == ExitCode::kNoTarget ? absl::OkStatus() : status;
}

absl::Status PatchedProcess::TakeOut(PatchedCode* code) {
  // The jumps are removed first, so that the threads that are in a trampoline leave it and no other
  // thread enters one. The jump at which Python's end waits for reading threads is kept until the
  // last thread has left.
  const absl::Status status = AtQuietMoment(
      pid_, memory_, nullptr,
      [this, code](QuietMoment*) {
        if (!code->IsStillThere()) return Gone();
        (void)code->Publish(0);
        return code->RemoveJumps(python_end_) ? absl::OkStatus() : NotPutBack();
      },
      &report_.detach);
  if (!status.ok()) return status;
  return AtQuietMoment(
      pid_, memory_, [code](uint64_t address) { return code->IsInsideRegion(address); },
      [this, code](QuietMoment* moment) {
        if (!code->IsStillThere()) return Gone();
        // Removes the jump that was kept, and jumps of which a uprobe that came or went meanwhile
        // has put bytes back.
        if (!code->RemoveJumps()) return NotPutBack();
        return UnmapAll(moment, code);
      },
      &report_.detach);
}

absl::Status PatchedProcess::TakeOut() {
  Adopt();
  const bool is_mapped = std::any_of(
      code_.regions().begin(), code_.regions().end(),
      [](const PatchedCode::Region& region) { return region.is_mapped || region.may_be_mapped; });
  if (!is_mapped && ring_address_ == 0 && descriptors_.empty()) return absl::OkStatus();
  absl::Status status = TakeOut(&code_);
  if (ExitCodeOf(status) == ExitCode::kNoTarget) {
    for (PatchedCode::Region& region : code_.regions()) region.is_mapped = false;
    ring_address_ = 0;
    descriptors_.clear();
    return absl::OkStatus();  // the program has ended, and all of this with it
  }
  return status;
}

}  // namespace proftrace
