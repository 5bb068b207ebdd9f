#include "userspace/capture/system_facts.h"

#include "userspace/model/system_calls.h"

namespace proftrace {
namespace {

static_assert(kSystemCallNumbers == PT_SYSTEM_CALLS);

abi::pt_system_call FactsOf(const SystemCallInfo& info) {
  abi::pt_system_call facts{};
  facts.arguments = info.argument_count;
  facts.fd = info.places.fd;
  facts.path = info.places.path;
  facts.directory = info.places.directory;
  facts.second_path = info.places.second_path;
  facts.second_directory = info.places.second_directory;
  facts.time = info.places.time;
  facts.address = info.places.address;
  facts.address_bytes = info.places.address_bytes;
  const auto set = [&facts](bool is_set, abi::pt_system_call_flag flag) {
    if (is_set) facts.flags = static_cast<abi::pt_u8>(facts.flags | flag);
  };
  set(info.is_io, abi::PT_SYSTEM_CALL_IS_IO);
  set(info.gives_file, abi::PT_SYSTEM_CALL_GIVES_FILE);
  set(info.renames, abi::PT_SYSTEM_CALL_RENAMES);
  set(info.execs, abi::PT_SYSTEM_CALL_EXECS);
  set(info.fills_address, abi::PT_SYSTEM_CALL_FILLS_ADDRESS);
  set(info.ends_thread, abi::PT_SYSTEM_CALL_ENDS_THREAD);
  set(info.time_is_32, abi::PT_SYSTEM_CALL_TIME_IS_32);
  set(info.time_is_timeval, abi::PT_SYSTEM_CALL_TIME_IS_TIMEVAL);
  return facts;
}

}  // namespace

std::vector<abi::pt_system_call> SystemCallFactsForKernel() {
  std::vector<abi::pt_system_call> facts;
  facts.reserve(size_t{abi::PT_SYSTEM_ABIS} * PT_SYSTEM_CALLS);
  for (const SystemAbi abi : {SystemAbi::kX86_64, SystemAbi::kI386, SystemAbi::kX32}) {
    for (uint32_t number = 0; number < PT_SYSTEM_CALLS; ++number) {
      const SystemCallInfo* info = FindSystemCall(abi, number);
      abi::pt_system_call unknown{};
      unknown.arguments = 6;
      facts.push_back(info == nullptr ? unknown : FactsOf(*info));
    }
  }
  return facts;
}

}  // namespace proftrace
