#include "tests/unit/symbols/emulator.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

namespace proftrace {
namespace {

constexpr uint64_t kPageBytes = 4096;
// A string instruction that is repeated for ever does not get further than that.
constexpr size_t kMostPagesARun = 8;
constexpr uint64_t kFlags = 0xcd5;  // CF, PF, AF, ZF, SF, DF, OF
// In the order of their hardware numbers.
constexpr int kGeneral[] = {UC_X86_REG_RAX, UC_X86_REG_RCX, UC_X86_REG_RDX, UC_X86_REG_RBX,
                            UC_X86_REG_RSP, UC_X86_REG_RBP, UC_X86_REG_RSI, UC_X86_REG_RDI,
                            UC_X86_REG_R8,  UC_X86_REG_R9,  UC_X86_REG_R10, UC_X86_REG_R11,
                            UC_X86_REG_R12, UC_X86_REG_R13, UC_X86_REG_R14, UC_X86_REG_R15};

void Check(uc_err error, const char* what) {
  if (error != UC_ERR_OK) throw std::runtime_error(std::string(what) + ": " + uc_strerror(error));
}

// splitmix64.
uint64_t Mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
  value = (value ^ value >> 27) * 0x94d049bb133111eb;
  return value ^ value >> 31;
}

}  // namespace

Emulator::Emulator() {
  Check(uc_open(UC_ARCH_X86, UC_MODE_64, &engine_), "open");
  uc_hook hook;
  Check(uc_hook_add(engine_, &hook, UC_HOOK_MEM_READ_UNMAPPED | UC_HOOK_MEM_WRITE_UNMAPPED,
                    reinterpret_cast<void*>(OnUnmapped), this, 1, 0),
        "hook");
  Check(
      uc_hook_add(engine_, &hook, UC_HOOK_MEM_WRITE, reinterpret_cast<void*>(OnWrite), this, 1, 0),
      "hook");
  Check(uc_ctl_exits_enable(engine_), "exits");
  const uint64_t thread = kThread;
  Check(uc_reg_write(engine_, UC_X86_REG_FS_BASE, &thread), "fs");
}

Emulator::~Emulator() { uc_close(engine_); }

bool Emulator::Map(uint64_t page, bool is_code) {
  if (pages_.contains(page)) {
    return !is_code || uc_mem_protect(engine_, page, kPageBytes, UC_PROT_ALL) == UC_ERR_OK;
  }
  if (!is_code && pages_.size() >= most_pages_) return false;
  // Not canonical, or the last page, which reads would run out of.
  if (page >= 0x7fff'ffff'f000 && page < 0xffff'8000'0000'0000) return false;
  if (page >= 0xffff'ffff'ffff'f000) return false;
  std::vector<uint8_t> content(kPageBytes);
  for (uint64_t at = 0; at < kPageBytes; at += 8) {
    const uint64_t word = Mix(page + at);
    std::memcpy(content.data() + at, &word, 8);
  }
  const uint32_t rights = is_code ? UC_PROT_ALL : UC_PROT_READ | UC_PROT_WRITE;
  if (uc_mem_map(engine_, page, kPageBytes, rights) != UC_ERR_OK) return false;
  Check(uc_mem_write(engine_, page, content.data(), kPageBytes), "fill");
  pages_[page] = std::move(content);
  return true;
}

bool Emulator::OnUnmapped(uc_engine*, uc_mem_type, uint64_t address, int size, int64_t,
                          void* self) {
  auto* const emulator = static_cast<Emulator*>(self);
  const uint64_t last = address + static_cast<uint64_t>(std::max(size, 1)) - 1;
  return emulator->Map(address & ~(kPageBytes - 1), false) &&
         emulator->Map(last & ~(kPageBytes - 1), false);
}

void Emulator::OnWrite(uc_engine*, uc_mem_type, uint64_t address, int size, int64_t, void* self) {
  auto* const emulator = static_cast<Emulator*>(self);
  for (int i = 0; i < size; ++i) emulator->written_.insert(address + static_cast<uint64_t>(i));
}

void Emulator::Load(uint64_t address, std::span<const uint8_t> bytes) {
  const uint64_t end = address + bytes.size();
  for (uint64_t page = address & ~(kPageBytes - 1); page < end; page += kPageBytes) {
    if (!Map(page, true)) throw std::runtime_error("no room for code");
    const uint64_t first = std::max(page, address);
    const uint64_t last = std::min(page + kPageBytes, end);
    std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(first - address), last - first,
                pages_[page].begin() + static_cast<ptrdiff_t>(first - page));
  }
  Check(uc_mem_write(engine_, address, bytes.data(), bytes.size()), "load");
  Check(uc_ctl_remove_cache(engine_, address, end), "cache");
}

void Emulator::Set(const ProcessorState& state) {
  for (size_t i = 0; i < state.general.size(); ++i) {
    Check(uc_reg_write(engine_, kGeneral[i], &state.general[i]), "register");
    Check(uc_reg_write(engine_, UC_X86_REG_XMM0 + static_cast<int>(i), state.vectors[i].data()),
          "vector");
  }
  // MMX shares them.
  const std::array<uint8_t, 16> empty{};
  for (int i = 0; i < 8; ++i) Check(uc_reg_write(engine_, UC_X86_REG_ST0 + i, empty.data()), "x87");
  const uint64_t vector_control = 0x1f80;  // as a thread begins with
  const uint64_t x87_control = 0x37f;
  const uint64_t x87_status = 0;
  Check(uc_reg_write(engine_, UC_X86_REG_MXCSR, &vector_control), "mxcsr");
  Check(uc_reg_write(engine_, UC_X86_REG_FPCW, &x87_control), "x87");
  Check(uc_reg_write(engine_, UC_X86_REG_FPSW, &x87_status), "x87");
  const uint64_t flags = (state.flags & kFlags) | 2;
  Check(uc_reg_write(engine_, UC_X86_REG_EFLAGS, &flags), "flags");
  Check(uc_reg_write(engine_, UC_X86_REG_RIP, &state.address), "rip");
}

ProcessorState Emulator::Get() const {
  ProcessorState state;
  for (size_t i = 0; i < state.general.size(); ++i) {
    Check(uc_reg_read(engine_, kGeneral[i], &state.general[i]), "register");
    Check(uc_reg_read(engine_, UC_X86_REG_XMM0 + static_cast<int>(i), state.vectors[i].data()),
          "vector");
  }
  Check(uc_reg_read(engine_, UC_X86_REG_EFLAGS, &state.flags), "flags");
  state.flags &= kFlags;
  Check(uc_reg_read(engine_, UC_X86_REG_RIP, &state.address), "rip");
  return state;
}

bool Emulator::RunUntil(uint64_t address, std::vector<uint64_t> exits, size_t most) {
  // What it has translated knows of the exits as they were.
  for (const uint64_t exit : exits) Check(uc_ctl_remove_cache(engine_, exit, exit + 1), "cache");
  Check(uc_ctl_set_exits(engine_, exits.data(), exits.size()), "exits");
  most_pages_ = pages_.size() + kMostPagesARun;
  const uc_err error = uc_emu_start(engine_, address, 0, 0, most);
  return error == UC_ERR_OK || error == UC_ERR_FETCH_UNMAPPED || error == UC_ERR_FETCH_PROT;
}

std::map<uint64_t, uint8_t> Emulator::Written() const {
  std::map<uint64_t, uint8_t> written;
  for (const uint64_t address : written_) {
    uint8_t byte = 0;
    if (uc_mem_read(engine_, address, &byte, 1) != UC_ERR_OK) continue;
    const auto page = pages_.find(address & ~(kPageBytes - 1));
    const bool is_new = page == pages_.end() || page->second[address & (kPageBytes - 1)] != byte;
    if (is_new) written[address] = byte;
  }
  return written;
}

void Emulator::Forget() {
  for (const uint64_t address : written_) {
    const auto page = pages_.find(address & ~(kPageBytes - 1));
    if (page == pages_.end()) continue;
    uc_mem_write(engine_, address, &page->second[address & (kPageBytes - 1)], 1);
  }
  written_.clear();
}

}  // namespace proftrace
