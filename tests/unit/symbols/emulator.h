// A processor in software, for pieces of machine code: registers, flags, memory, one instruction
// after the other. By Unicorn.
#pragma once

#include <unicorn/unicorn.h>

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

namespace proftrace {

struct ProcessorState {
  std::array<uint64_t, 16> general{};                 // by their hardware numbers
  std::array<std::array<uint64_t, 2>, 16> vectors{};  // xmm0 to xmm15
  uint64_t flags = 0;                                 // the arithmetic ones and DF
  uint64_t address = 0;                               // of the next instruction

  bool operator==(const ProcessorState&) const = default;
};

// Memory has some content everywhere, always the same; what a run writes is undone by Forget.
class Emulator {
 public:
  Emulator();
  ~Emulator();
  Emulator(const Emulator&) = delete;
  Emulator& operator=(const Emulator&) = delete;

  // Puts code there, for good.
  void Load(uint64_t address, std::span<const uint8_t> bytes);
  void Set(const ProcessorState& state);
  ProcessorState Get() const;
  // Runs from `address` on until one of `exits` comes next, or what is no code, or `most`
  // instructions are done (0 = no limit); false where the processor refuses an instruction.
  bool RunUntil(uint64_t address, std::vector<uint64_t> exits, size_t most = 0);
  // What has been written since the last Forget, as it is now, where it is not what was there.
  std::map<uint64_t, uint8_t> Written() const;
  void Forget();
  // Pages that were touched; more of them make everything slower.
  size_t pages() const { return pages_.size(); }

  static constexpr uint64_t kThread = 0x7f30'0000'0000;  // what fs points to

 private:
  static bool OnUnmapped(uc_engine*, uc_mem_type, uint64_t address, int size, int64_t, void* self);
  static void OnWrite(uc_engine*, uc_mem_type, uint64_t address, int size, int64_t, void* self);
  bool Map(uint64_t page, bool is_code);

  uc_engine* engine_ = nullptr;
  std::map<uint64_t, std::vector<uint8_t>> pages_;  // their first content
  size_t most_pages_ = SIZE_MAX;                    // in this run
  std::set<uint64_t> written_;
};

}  // namespace proftrace
