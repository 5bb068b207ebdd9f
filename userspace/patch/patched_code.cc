#include "userspace/patch/patched_code.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "bpf/abi/patch_memory.h"
#include "symbols/plan/process.h"
#include "symbols/x86/instruction.h"
#include "userspace/inject/jump_distance.h"
#include "userspace/inject/loader_places.h"
#include "userspace/inject/torn_jump.h"
#include "userspace/patch/patch_rooms.h"
#include "userspace/patch/private_pages.h"
#include "userspace/patch/recorder_code.h"
#include "userspace/patch/trampoline_room.h"

namespace proftrace {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr size_t kMostWindowBytes = 64;
// The widest gap that is dropped together with the pages on both sides of it, by one madvise(2).
// Each further call would make the job's thread run and stop once more, while pages of the file
// that are dropped needlessly cost one fault for 16 of them.
constexpr uint64_t kMostGapBytes = 1024 * kPageBytes;

uint64_t PageOf(uint64_t address) { return address & ~(kPageBytes - 1); }

// Whether the bytes `now` are the jump `ours`. Breakpoints that others have set in it since count
// as part of it, because whoever set one puts the byte back that was there.
bool IsOurJump(std::span<const uint8_t> ours, const uint8_t* now) {
  return IsOfFile(now, ours.data(), ours.size());
}

// Whether the jump's place holds only bytes of the jump, breakpoints, and bytes of the file, which
// the kernel may have put back.
bool IsJumpOrFile(std::span<const uint8_t> ours, std::span<const uint8_t> original,
                  const uint8_t* now) {
  for (size_t i = 0; i < ours.size(); ++i) {
    if (now[i] != ours[i] && now[i] != original[i] && now[i] != kBreakpointOpcode) return false;
  }
  return true;
}

void PutBack(std::span<const uint8_t> ours, std::span<const uint8_t> original, uint8_t* now) {
  for (size_t i = 0; i < ours.size(); ++i) {
    if (now[i] == ours[i]) now[i] = original[i];
  }
}

}  // namespace

bool IsRegionMapped(const AddressRange& range, const std::vector<Mapping>& mappings) {
  const uint64_t end = range.address + range.bytes;
  if (end <= range.address || range.bytes <= PATCH_CONTROL_BYTES) return false;
  bool has_begin = false;
  bool has_end = false;
  for (const Mapping& mapping : mappings) {
    if (mapping.inode != 0 || !mapping.path.empty()) continue;
    has_begin =
        has_begin || (mapping.start == range.address && !mapping.executable &&
                      (mapping.end >= end || mapping.end == range.address + PATCH_CONTROL_BYTES));
    // The kernel may have joined the region's last part with the process's own memory behind it.
    has_end = has_end || (mapping.start < end && end <= mapping.end);
  }
  return has_begin && has_end;
}

bool IsUnclaimedRegion(const WritableMemory& memory, const AddressRange& range,
                       const std::vector<Mapping>& mappings) {
  uint64_t magic = 0;
  return IsRegionMapped(range, mappings) &&
         memory.ReadValue(range.address + PATCH_CONTROL_MAGIC, &magic) && magic == 0;
}

void PatchedCode::PlaceRegions(std::vector<PatchSpot> spots, const std::vector<Mapping>& mappings) {
  spots_ = std::move(spots);
  const uint64_t tables =
      PATCH_CONTROL_BYTES + RoundUp(RecorderCode().size(), kTrampolineAlignment);
  const uint64_t fixed = tables + RoundUp(tables_.bytes().size(), kTrampolineAlignment);
  size_t next = 0;
  const auto refuse_until = [&](size_t end) {
    for (; next < end; ++next) Refuse(next, kNoRoom);
  };
  for (const PatchRoom& room : FindPatchRooms(spots_, fixed, mappings)) {
    refuse_until(room.first);
    Region region;
    region.range = {room.address, room.bytes};
    region.tables = room.address + tables;
    for (; next < room.end; ++next) region.spots.push_back(next);
    regions_.push_back(std::move(region));
  }
  refuse_until(spots_.size());
}

void PatchedCode::TakeFrom(const PatchedCode& parent) {
  facts_ = parent.facts_;
  tables_ = parent.tables_;
  node_signature_ = parent.node_signature_;
  spots_ = parent.spots_;
  regions_ = parent.regions_;
  jumps_ = parent.jumps_;
  runs_ = parent.runs_;
  refused_ = parent.refused_;
  trampoline_bytes_ = parent.trampoline_bytes_;
}

void PatchedCode::Adopt(const PatchedCode& other) {
  const size_t first = spots_.size();
  spots_.insert(spots_.end(), other.spots_.begin(), other.spots_.end());
  for (Region region : other.regions_) {
    for (size_t& spot : region.spots) spot += first;
    regions_.push_back(std::move(region));
  }
  for (Jump jump : other.jumps_) {
    jump.spot += first;
    jumps_.push_back(std::move(jump));
  }
  for (const Refusal& refusal : other.refused_) Refuse(first + refusal.spot, refusal.reason);
  trampoline_bytes_ += other.trampoline_bytes_;
  std::sort(jumps_.begin(), jumps_.end(),
            [](const Jump& a, const Jump& b) { return a.address < b.address; });
  runs_.clear();
  FindRuns();
  (void)SetFacts(facts_);
}

bool PatchedCode::HasJumpOfEachRegion() const {
  std::vector<bool> is_seen(spots_.size());
  std::vector<uint8_t> now(kWindowBytes);
  for (const Jump& jump : jumps_) {
    if (jump.is_written) is_seen[jump.spot] = true;
  }
  return std::all_of(regions_.begin(), regions_.end(), [&](const Region& region) {
    const auto first = std::find_if(region.spots.begin(), region.spots.end(),
                                    [&](size_t spot) { return is_seen[spot]; });
    if (first == region.spots.end()) return true;
    const uint64_t address = spots_[*first].address();
    const auto jump =
        std::lower_bound(jumps_.begin(), jumps_.end(), address,
                         [](const Jump& known, uint64_t at) { return known.address < at; });
    return memory_.Read(address, now.data(), now.size()) && IsOurJump(jump->bytes, now.data());
  });
}

bool PatchedCode::TakeOver(const std::vector<AddressRange>& regions,
                           const std::vector<uint64_t>& jumps,
                           const std::vector<Mapping>& mappings) {
  bool is_known = true;
  for (const AddressRange& range : regions) regions_.push_back({range, {}, true, 0});
  for (const uint64_t address : jumps) {
    Jump jump;
    jump.address = address;
    jump.bytes.resize(kWindowBytes);
    jump.original.resize(kWindowBytes);
    if (!memory_.Read(address, jump.bytes.data(), kWindowBytes) ||
        !ReadMappedFile(pid_, mappings, address, jump.original.data(), kWindowBytes)) {
      continue;
    }
    // A place without a jump (any more) is kept, because its page may still be the process's own.
    if (jump.bytes == jump.original) {
      jumps_.push_back(std::move(jump));
      continue;
    }
    JumpPlace now;
    JumpPlace file;
    std::copy_n(jump.bytes.begin(), now.size(), now.begin());
    std::copy_n(jump.original.begin(), file.size(), file.begin());
    const auto region = std::ranges::find_if(regions_, [&](const Region& one) {
      return MayBeJumpInto(one.range.address, one.range.address + one.range.bytes, address, now,
                           file);
    });
    if (region == regions_.end()) {
      // These bytes are the file's with breakpoints of others, or code that somebody else has
      // written.
      is_known = is_known && IsOfFile(now.data(), file.data(), now.size());
      continue;
    }
    // The bytes that belong to the jump are those that change when the jump is taken out.
    const JumpPlace restored = WithoutJump(
        region->range.address, region->range.address + region->range.bytes, address, now, file);
    for (size_t i = 0; i < now.size(); ++i) {
      if (restored[i] == now[i]) jump.bytes[i] = jump.original[i];
    }
    jump.is_written = true;
    jumps_.push_back(std::move(jump));
  }
  std::sort(jumps_.begin(), jumps_.end(),
            [](const Jump& a, const Jump& b) { return a.address < b.address; });
  FindRuns();
  return is_known;
}

bool PatchedCode::Claim(const Region& region) const {
  const auto owner = static_cast<uint32_t>(getpid());
  const absl::StatusOr<ProcessInfo> self = ReadProcessInfo(Pid{owner});
  const uint64_t fields[] = {0, PATCH_RING_MAGIC_VALUE, region.range.bytes, owner,
                             self.ok() ? self->start_ticks : 0};
  static_assert(sizeof(fields) == PATCH_CONTROL_AUTOGRAD);
  static_assert(
      PATCH_CONTROL_AUTOGRAD + sizeof(facts_) == PATCH_CONTROL_FIELDS &&
      PATCH_CONTROL_AUTOGRAD + offsetof(JobFacts, python_nodes) == PATCH_CONTROL_PYTHON_NODES &&
      PATCH_CONTROL_AUTOGRAD + offsetof(JobFacts, annotations) == PATCH_CONTROL_ANNOTATIONS);
  const uint64_t tables[] = {region.tables, tables_.place_count(),
                             region.tables + tables_.signatures_at(), tables_.signature_count(),
                             node_signature_};
  static_assert(PATCH_CONTROL_NODE_SIGNATURE == PATCH_CONTROL_PLACES + 32);
  return memory_.Write(region.range.address, fields, sizeof(fields)) &&
         memory_.Write(region.range.address + PATCH_CONTROL_AUTOGRAD, &facts_, sizeof(facts_)) &&
         memory_.Write(region.range.address + PATCH_CONTROL_PLACES, tables, sizeof(tables));
}

bool PatchedCode::IsClaimed() const {
  return std::any_of(regions_.begin(), regions_.end(), [this](const Region& region) {
    uint64_t magic = 0;
    return memory_.ReadValue(region.range.address + PATCH_CONTROL_MAGIC, &magic) &&
           magic == PATCH_RING_MAGIC_VALUE;
  });
}

bool PatchedCode::IsStillThere() const {
  const absl::StatusOr<std::vector<Mapping>> mappings = ReadMaps(pid_);
  return mappings.ok() && std::all_of(regions_.begin(), regions_.end(), [&](const Region& region) {
           uint64_t magic = 0;
           if (!region.is_mapped) return true;
           if (!memory_.ReadValue(region.range.address + PATCH_CONTROL_MAGIC, &magic)) return false;
           // The control page of a forked child is empty, and so is one that was not claimed yet.
           // Memory that another program has there may be empty, too.
           return magic == PATCH_RING_MAGIC_VALUE ||
                  (magic == 0 && IsRegionMapped(region.range, *mappings));
         });
}

void PatchedCode::SeeWhatIsMapped() {
  const bool is_any = std::any_of(regions_.begin(), regions_.end(),
                                  [](const Region& region) { return region.may_be_mapped; });
  if (!is_any) return;
  const absl::StatusOr<std::vector<Mapping>> mappings = ReadMaps(pid_);
  for (Region& region : regions_) {
    if (region.may_be_mapped && mappings.ok()) {
      region.is_mapped = IsUnclaimedRegion(memory_, region.range, *mappings);
    }
    region.may_be_mapped = false;
  }
}

std::vector<uint64_t> PatchedCode::JumpAddresses() const {
  std::vector<uint64_t> addresses;
  for (const PatchSpot& spot : spots_) addresses.push_back(spot.address());
  return addresses;
}

absl::Status PatchedCode::WriteTrampolines(bool touches_pages) {
  for (Region& region : regions_) {
    const uint64_t recorder = region.range.address + PATCH_CONTROL_BYTES;
    std::vector<uint8_t> code(RecorderCode().begin(), RecorderCode().end());
    code.resize(region.tables - recorder, kBreakpointOpcode);
    code.insert(code.end(), tables_.bytes().begin(), tables_.bytes().end());
    TrampolineRoom room(recorder + RoundUp(code.size(), kTrampolineAlignment),
                        region.range.address + region.range.bytes);
    for (const size_t i : region.spots) {
      const uint16_t number = spots_[i].signature;
      const uint64_t signature = number != 0 ? region.tables + tables_.SignatureAt(number) : 0;
      const uint64_t jump_end = spots_[i].address() + kWindowBytes;
      const std::optional<uint64_t> to = room.Take(jump_end, TrampolineBytes(spots_[i]));
      if (!to.has_value()) {
        Refuse(i, "its trampoline has no room");
        continue;
      }
      const absl::StatusOr<std::vector<uint8_t>> bytes =
          MakeTrampoline(spots_[i], *to, recorder, signature);
      absl::StatusOr<std::vector<uint8_t>> jump = JumpBytes(spots_[i], *to);
      if (!bytes.ok() || !jump.ok()) {
        Refuse(i, std::string((bytes.ok() ? jump.status() : bytes.status()).message()));
        continue;
      }
      const uint64_t at = *to - recorder;
      if (code.size() < at + bytes->size()) code.resize(at + bytes->size(), kBreakpointOpcode);
      std::copy(bytes->begin(), bytes->end(), code.begin() + static_cast<ptrdiff_t>(at));
      const std::vector<uint8_t>& original = spots_[i].original;
      jumps_.push_back({i,
                        spots_[i].address(),
                        *std::move(jump),
                        {original.begin(), original.begin() + kWindowBytes},
                        original,
                        false,
                        false});
    }
    if (!memory_.Write(recorder, code.data(), code.size())) {
      return absl::UnavailableError("its memory cannot be written");
    }
    trampoline_bytes_ += code.size();
  }
  DropPartialGroups();
  FindRuns();
  if (touches_pages) MakeOwnPages();
  return absl::OkStatus();
}

void PatchedCode::DropPartialGroups() {
  std::set<uint32_t> partial;
  for (const Refusal& refusal : refused_) partial.insert(spots_[refusal.spot].group);
  for (const Jump& jump : jumps_) {
    const uint32_t group = spots_[jump.spot].group;
    if (group == 0 || partial.contains(group)) continue;
    std::vector<uint8_t> now(jump.window.size());
    if (!memory_.Read(jump.address, now.data(), now.size()) || now != jump.window) {
      partial.insert(group);
    }
  }
  partial.erase(0);
  std::erase_if(jumps_, [&](const Jump& jump) {
    if (!partial.contains(spots_[jump.spot].group)) return false;
    Refuse(jump.spot, "another place of the same rows cannot have a jump");
    return true;
  });
}

void PatchedCode::FindRuns() {
  for (size_t i = 0; i < jumps_.size(); ++i) {
    const uint64_t page = PageOf(jumps_[i].address);
    if (runs_.empty() || page > runs_.back().address + runs_.back().bytes) {
      runs_.push_back({page, 0, i, 0});
    }
    PageRun& run = runs_.back();
    run.bytes = page + kPageBytes - run.address;
    ++run.jumps;
  }
  const absl::StatusOr<std::vector<Mapping>> mappings = ReadMaps(pid_);
  if (!mappings.ok()) return;
  std::vector<uint8_t> file;
  for (PageRun& run : runs_) {
    file.resize(run.bytes);
    if (!ReadMappedFile(pid_, *mappings, run.address, file.data(), file.size())) continue;
    run.like_breakpoints.emplace();
    for (size_t i = 0; i < file.size(); ++i) {
      if (file[i] == kBreakpointOpcode) run.like_breakpoints->push_back(i);
    }
  }
}

bool PatchedCode::MayHaveBreakpoints(const PageRun& run, std::span<const uint8_t> now) const {
  if (!run.like_breakpoints.has_value()) return true;
  size_t next = run.first_jump;
  auto known = run.like_breakpoints->begin();
  for (size_t i = 0; i < run.bytes; ++i) {
    const void* found = std::memchr(now.data() + i, kBreakpointOpcode, run.bytes - i);
    if (found == nullptr) return false;
    i = static_cast<size_t>(static_cast<const uint8_t*>(found) - now.data());
    known = std::lower_bound(known, run.like_breakpoints->end(), i);
    if (known != run.like_breakpoints->end() && *known == i) continue;
    const uint64_t address = run.address + i;
    while (next < run.first_jump + run.jumps && jumps_[next].address + kWindowBytes <= address) {
      ++next;
    }
    if (next == run.first_jump + run.jumps || address < jumps_[next].address) return true;
    const Jump& jump = jumps_[next];
    if (!jump.is_written || jump.bytes[address - jump.address] != kBreakpointOpcode) return true;
  }
  return false;
}

bool PatchedCode::WriteRun(const PageRun& run, std::span<const uint8_t> before,
                           std::span<const uint8_t> after) const {
  if (!MayHaveBreakpoints(run, before)) {
    return memory_.Write(run.address, after.data(), run.bytes);
  }
  bool is_written = true;
  for (size_t i = run.first_jump; i < run.first_jump + run.jumps; ++i) {
    const size_t at = jumps_[i].address - run.address;
    const auto from = before.subspan(at, kWindowBytes);
    const auto to = after.subspan(at, kWindowBytes);
    if (std::equal(from.begin(), from.end(), to.begin())) continue;
    is_written = WriteAround(memory_, jumps_[i].address, from, to) && is_written;
  }
  return is_written;
}

void PatchedCode::MakeOwnPages() {
  uint64_t last = 0;
  for (const Jump& jump : jumps_) {
    if (PageOf(jump.address) == last) continue;
    last = PageOf(jump.address);
    std::vector<uint8_t> now(kWindowBytes);
    if (memory_.Read(jump.address, now.data(), now.size()) && now == jump.original) {
      memory_.Write(jump.address, now.data(), now.size());
    }
  }
}

std::vector<size_t> PatchedCode::WrittenSpots() const {
  std::vector<size_t> written;
  for (const Jump& jump : jumps_) {
    if (jump.is_written) written.push_back(jump.spot);
  }
  return written;
}

std::vector<size_t> PatchedCode::ChangedSpots() const {
  std::vector<size_t> changed;
  for (const Jump& jump : jumps_) {
    if (jump.is_changed) changed.push_back(jump.spot);
  }
  return changed;
}

size_t PatchedCode::WriteJumps() {
  size_t written = 0;
  std::vector<uint8_t> now;
  std::vector<uint8_t> after;
  for (const PageRun& run : runs_) {
    // A window may reach beyond its jump's page.
    now.resize(run.bytes + kMostWindowBytes);
    bool is_read = memory_.Read(run.address, now.data(), now.size());
    if (!is_read) {
      now.resize(run.bytes);
      is_read = memory_.Read(run.address, now.data(), now.size());
    }
    after = now;
    size_t here = 0;
    for (size_t i = run.first_jump; i < run.first_jump + run.jumps; ++i) {
      Jump& jump = jumps_[i];
      const size_t at = jump.address - run.address;
      const auto seen = std::span(now).subspan(at);
      const auto window = std::span(jump.window).first(std::min(jump.window.size(), seen.size()));
      jump.is_written = is_read && std::equal(window.begin(), window.end(), seen.begin());
      jump.is_changed =
          is_read && !jump.is_written && !IsOfFile(seen.data(), window.data(), window.size());
      if (!jump.is_written) continue;
      std::copy(jump.bytes.begin(), jump.bytes.end(), after.begin() + static_cast<ptrdiff_t>(at));
      ++here;
    }
    if (here == 0) continue;
    if (!WriteRun(run, now, after)) {
      (void)WriteRun(run, after, now);
      for (size_t i = run.first_jump; i < run.first_jump + run.jumps; ++i) {
        jumps_[i].is_written = false;
      }
      continue;
    }
    written += here;
  }
  return written;
}

size_t PatchedCode::CountJumps() const {
  return static_cast<size_t>(std::count_if(jumps_.begin(), jumps_.end(),
                                           [](const Jump& jump) { return jump.is_written; }));
}

bool PatchedCode::Publish(uint64_t ring) const {
  bool is_written = true;
  for (const Region& region : regions_) {
    if (ring != 0) {
      is_written =
          is_written && memory_.WriteValue(region.range.address + PATCH_CONTROL_PYTHON_END, ring);
    }
    is_written = is_written && memory_.WriteValue(region.range.address + PATCH_CONTROL_RING, ring);
  }
  return is_written;
}

bool PatchedCode::SetFacts(const JobFacts& facts) {
  facts_ = facts;
  return std::all_of(regions_.begin(), regions_.end(), [&](const Region& region) {
    return !region.is_mapped ||
           memory_.Write(region.range.address + PATCH_CONTROL_AUTOGRAD, &facts, sizeof(facts));
  });
}

bool PatchedCode::RemoveJumps(uint64_t kept) {
  bool is_clean = true;
  std::vector<uint8_t> now;
  std::vector<uint8_t> after;
  for (const PageRun& run : runs_) {
    now.resize(run.bytes);
    if (!memory_.Read(run.address, now.data(), now.size())) {
      // A part of the run is unmapped, together with the library that was there.
      for (size_t i = run.first_jump; i < run.first_jump + run.jumps; ++i) {
        is_clean = RemoveJump(jumps_[i], kept) && is_clean;
      }
      continue;
    }
    after = now;
    for (size_t i = run.first_jump; i < run.first_jump + run.jumps; ++i) {
      const Jump& jump = jumps_[i];
      if (!jump.is_written || jump.address == kept) continue;
      uint8_t* at = after.data() + (jump.address - run.address);
      if (IsJumpOrFile(jump.bytes, jump.original, at)) {
        PutBack(jump.bytes, jump.original, at);
      } else {
        is_clean = false;
      }
    }
    if (after != now) is_clean = WriteRun(run, now, after) && is_clean;
  }
  return is_clean;
}

bool PatchedCode::RemoveJump(const Jump& jump, uint64_t kept) const {
  std::array<uint8_t, kWindowBytes> now{};
  if (!jump.is_written || jump.address == kept ||
      !memory_.Read(jump.address, now.data(), now.size())) {
    return true;
  }
  if (!IsJumpOrFile(jump.bytes, jump.original, now.data())) return false;
  std::array<uint8_t, kWindowBytes> after = now;
  PutBack(jump.bytes, jump.original, after.data());
  return WriteAround(memory_, jump.address, now, after);
}

bool PatchedCode::IsInsideJump(uint64_t address) const {
  auto at = std::upper_bound(jumps_.begin(), jumps_.end(), address,
                             [](uint64_t a, const Jump& jump) { return a < jump.address; });
  if (at == jumps_.begin()) return false;
  --at;
  return address > at->address && address < at->address + kWindowBytes;
}

bool PatchedCode::IsInsideRegion(uint64_t address) const {
  return std::any_of(regions_.begin(), regions_.end(),
                     [address](const Region& region) { return region.range.Holds(address); });
}

std::vector<AddressRange> PatchedCode::RestoredRuns() const {
  std::vector<AddressRange> restored;
  const absl::StatusOr<std::vector<Mapping>> mappings = ReadMaps(pid_);
  if (!mappings.ok()) return restored;
  const PrivatePages pages(pid_);
  const auto are_of_file = [&](uint64_t begin, uint64_t end) {
    return std::any_of(mappings->begin(), mappings->end(),
                       [&](const Mapping& mapping) {
                         return mapping.start <= begin && end <= mapping.end;
                       }) &&
           pages.AreOfFile(begin, end);
  };
  std::vector<uint8_t> now(kPageBytes);
  std::vector<uint8_t> file(kPageBytes);
  for (const PageRun& run : runs_) {
    for (uint64_t page = run.address; page < run.address + run.bytes; page += kPageBytes) {
      if (!memory_.Read(page, now.data(), now.size()) ||
          !ReadMappedFile(pid_, *mappings, page, file.data(), file.size()) || now != file) {
        continue;
      }
      const uint64_t last = restored.empty() ? 0 : restored.back().address + restored.back().bytes;
      if (last != 0 && page - last <= kMostGapBytes && are_of_file(last, page)) {
        restored.back().bytes = page + kPageBytes - restored.back().address;
      } else {
        restored.push_back({page, kPageBytes});
      }
    }
  }
  return restored;
}

}  // namespace proftrace
