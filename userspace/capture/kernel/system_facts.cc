#include "userspace/capture/kernel/system_facts.h"

#include "userspace/model/system_calls.h"

namespace proftrace {
namespace {

static_assert(kSystemCallNumbers == PT_SYSTEM_CALLS);
static_assert(kMostArguments + 1 == PT_SYSTEM_FIRST_FIELD);

abi::pt_u8 ShapeOf(const abi::pt_system_call& facts) {
  if (facts.second_path != 0 || (facts.path == 0 && facts.second_directory != 0) ||
      facts.time != 0 || facts.address != 0 || facts.structure != 0 ||
      (facts.flags & abi::PT_SYSTEM_CALL_EXECS) != 0) {
    return abi::PT_SYSTEM_CALL_IS_LONG;
  }
  return facts.path != 0 ? abi::PT_SYSTEM_CALL_HAS_PATH : abi::PT_SYSTEM_CALL_IS_PLAIN;
}

abi::pt_system_call FactsOf(const SystemCallInfo& info) {
  abi::pt_system_call facts{};
  facts.arguments = info.argument_count;
  facts.fd = info.places.fd;
  facts.path = info.places.path;
  facts.directory = static_cast<abi::pt_u8>(info.changes_directory ? PT_SYSTEM_DIRECTORY_AT_BEGIN
                                                                   : info.places.directory);
  facts.second_path = info.places.second_path;
  facts.second_directory = info.places.second_directory;
  facts.time =
      static_cast<abi::pt_u8>(info.places.time | (info.leaves_time ? PT_SYSTEM_TIME_IS_LEFT : 0));
  facts.address = info.places.address;
  facts.address_bytes = info.places.address_bytes;
  facts.structure = info.places.structure;
  facts.field_bytes = info.fields_are_32 ? 4 : 8;
  facts.structure_bytes = static_cast<abi::pt_u8>(info.fields.size() * facts.field_bytes);
  facts.message_bytes = info.message_bytes;
  const auto set = [&facts](bool is_set, abi::pt_system_call_flag flag) {
    if (is_set) facts.flags = static_cast<abi::pt_u8>(facts.flags | flag);
  };
  set(info.is_io, abi::PT_SYSTEM_CALL_IS_IO);
  set(info.gives_file, abi::PT_SYSTEM_CALL_GIVES_FILE);
  set(info.renames, abi::PT_SYSTEM_CALL_RENAMES);
  set(info.execs, abi::PT_SYSTEM_CALL_EXECS);
  set(info.fills_address, abi::PT_SYSTEM_CALL_FILLS_ADDRESS);
  set(info.second_is_text, abi::PT_SYSTEM_CALL_SECOND_IS_TEXT);
  set(info.time_is_timeval, abi::PT_SYSTEM_CALL_TIME_IS_TIMEVAL);
  facts.shape = ShapeOf(facts);
  return facts;
}

}  // namespace

std::vector<abi::pt_system_call> SystemCallFactsForKernel() {
  std::vector<abi::pt_system_call> facts;
  facts.reserve(PT_SYSTEM_CALLS + 1);
  for (uint32_t number = 0; number < PT_SYSTEM_CALLS; ++number) {
    const SystemCallInfo* info = FindSystemCall(SystemAbi::kX86_64, number);
    abi::pt_system_call unknown{};
    unknown.arguments = 6;
    facts.push_back(info == nullptr ? unknown : FactsOf(*info));
  }
  facts.emplace_back();  // PT_SYSTEM_FOREIGN_CALL, which has no arguments
  return facts;
}

}  // namespace proftrace
