// record_sizes CAPTURE: how many records of each kind (enum pt_kind) a capture has, and how many
// bytes they take in the ring.
#include <cstdio>
#include <cstring>
#include <map>

#include "bpf/abi/records.h"
#include "userspace/wire/capture_reader.h"

namespace proftrace {
namespace {

struct Sum {
  uint64_t records = 0;
  uint64_t bytes = 0;
};

int Run(const char* path) {
  const auto reader = CaptureReader::Open(path, {});
  if (!reader.ok()) {
    std::fprintf(stderr, "record_sizes: %s\n", std::string(reader.status().message()).c_str());
    return 1;
  }
  std::map<int, Sum> kinds;
  while (true) {
    const auto batch = (*reader)->Next();
    if (!batch.ok() || batch->end) break;
    std::span<const std::byte> records = batch->records;
    abi::pt_record head;
    while (records.size() >= sizeof(head)) {
      std::memcpy(&head, records.data(), sizeof(head));
      const size_t bytes = size_t{head.words} * 8;
      if (bytes < sizeof(head) || bytes > records.size()) break;
      ++kinds[head.kind].records;
      kinds[head.kind].bytes += bytes;
      records = records.subspan(bytes);
    }
  }
  std::printf("| kind | records | bytes | bytes a record |\n|---|---|---|---|\n");
  for (const auto& [kind, sum] : kinds) {
    std::printf("| %d | %llu | %llu | %.1f |\n", kind, static_cast<unsigned long long>(sum.records),
                static_cast<unsigned long long>(sum.bytes),
                static_cast<double>(sum.bytes) / static_cast<double>(sum.records));
  }
  return 0;
}

}  // namespace
}  // namespace proftrace

int main(int argc, char** argv) {
  if (argc == 2) return proftrace::Run(argv[1]);
  std::fprintf(stderr, "usage: record_sizes CAPTURE\n");
  return 2;
}
