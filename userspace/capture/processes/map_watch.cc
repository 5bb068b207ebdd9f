#include "userspace/capture/processes/map_watch.h"

#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

constexpr size_t kPageBytes = 4096;
// Enough for some 400 records: a record takes some 150 bytes, and the rings are emptied every 20
// ms.
constexpr size_t kRingBytes = 16 * kPageBytes;
constexpr size_t kMappedBytes = kPageBytes + kRingBytes;

// PERF_RECORD_MMAP (linux/perf_event.h); the path follows, NUL terminated.
struct MapRecord {
  perf_event_header header;
  uint32_t pid;
  uint32_t tid;
  uint64_t address;
  uint64_t length;
  uint64_t offset;
};

bool SaysTorch(std::string_view path) {
  const size_t slash = path.rfind('/');
  return path.find("torch", slash == std::string_view::npos ? 0 : slash) != std::string_view::npos;
}

int OpenOn(int cpu) {
  perf_event_attr event{};
  event.size = sizeof(event);
  event.type = PERF_TYPE_SOFTWARE;
  event.config = PERF_COUNT_SW_DUMMY;
  event.mmap = 1;  // executable mappings only
  event.watermark = 1;
  event.wakeup_watermark = kRingBytes;  // nobody waits for the ring
  return static_cast<int>(syscall(SYS_perf_event_open, &event, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC));
}

}  // namespace

void ReadMapRecords(std::span<const std::byte> bytes, MapNews* news) {
  while (bytes.size() >= sizeof(perf_event_header)) {
    perf_event_header header;
    std::memcpy(&header, bytes.data(), sizeof(header));
    if (header.size < sizeof(header) || header.size > bytes.size()) {
      news->is_lossy = true;
      return;
    }
    if (header.type == PERF_RECORD_LOST) news->is_lossy = true;
    if (header.type == PERF_RECORD_MMAP && header.size > sizeof(MapRecord)) {
      MapRecord record;
      std::memcpy(&record, bytes.data(), sizeof(record));
      const auto* path = reinterpret_cast<const char*>(bytes.data()) + sizeof(record);
      const std::string_view text(path, strnlen(path, header.size - sizeof(record)));
      // The pid is 0 for a process without a number in our PID namespace, and -1 for a process that
      // has ended.
      const bool is_ours = record.pid != 0 && record.pid <= INT32_MAX;
      if (is_ours && SaysTorch(text)) news->pids.insert(Pid{record.pid});
    }
    bytes = bytes.subspan(header.size);
  }
}

absl::StatusOr<std::unique_ptr<MapWatch>> MapWatch::Open() {
  std::unique_ptr<MapWatch> watch(new MapWatch);
  int error = ENODEV;
  for (int cpu = 0; cpu < sysconf(_SC_NPROCESSORS_CONF); ++cpu) {
    Ring ring;
    ring.fd = UniqueFd(OpenOn(cpu));
    error = ring.fd.valid() ? 0 : errno;
    if (error == ENODEV) continue;  // this CPU is off
    if (error == 0) {
      ring.memory =
          mmap(nullptr, kMappedBytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd.get(), 0);
      if (ring.memory == MAP_FAILED) error = errno;
    }
    if (error != 0) break;
    watch->rings_.push_back(std::move(ring));
  }
  if (watch->rings_.empty() || (error != 0 && error != ENODEV)) {
    return Fail(ExitCode::kHostUnfit, "cannot watch what is mapped: " + ErrnoText(error));
  }
  return watch;
}

MapWatch::~MapWatch() {
  for (const Ring& ring : rings_) munmap(ring.memory, kMappedBytes);
}

MapNews MapWatch::Take() {
  MapNews news;
  std::vector<std::byte> copy;
  for (const Ring& ring : rings_) {
    auto* page = static_cast<perf_event_mmap_page*>(ring.memory);
    const auto* data = static_cast<const std::byte*>(ring.memory) + kPageBytes;
    const uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
    const uint64_t tail = page->data_tail;
    if (head == tail) continue;
    const uint64_t bytes = std::min<uint64_t>(head - tail, kRingBytes);
    const uint64_t begin = tail % kRingBytes;
    const uint64_t first = std::min(bytes, kRingBytes - begin);
    copy.assign(data + begin, data + begin + first);
    copy.insert(copy.end(), data, data + (bytes - first));
    __atomic_store_n(&page->data_tail, head, __ATOMIC_RELEASE);
    ReadMapRecords(copy, &news);
  }
  return news;
}

}  // namespace proftrace
