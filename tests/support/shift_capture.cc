// Rewrites one process of a capture as if its host's clock had been another one: t becomes
// t + (t - start) * PPB / 1e9 + OFFSET, and STEP more from STEP_AT behind the start on. For tests
// that look whether the true times come back.
//
//   shift_capture INPUT OUTPUT PID HOST OFFSET_NS PPB STEP_AT_NS STEP_NS
#include <fcntl.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bpf/abi/records.h"
#include "userspace/wire/capture_reader.h"
#include "userspace/wire/capture_writer.h"
#include "userspace/wire/told_once.h"

namespace proftrace {
namespace {

using nlohmann::json;

struct Shift {
  int64_t start_ns = 0;
  int64_t offset_ns = 0;
  int64_t ppb = 0;
  int64_t step_at_ns = 0;
  int64_t step_ns = 0;

  int64_t Of(int64_t ns) const {
    const int64_t since_ns = ns - start_ns;
    const auto gained = static_cast<int64_t>(static_cast<__int128>(since_ns) * ppb / 1'000'000'000);
    return ns + offset_ns + gained + (since_ns >= step_at_ns ? step_ns : 0);
  }
};

// Rewrites the times of a metadata entry. False: it is of another process.
bool ShiftEntry(const Shift& shift, uint32_t pid, const std::string& host, json* entry) {
  if (entry->contains("pid") && (*entry)["pid"] != pid) return false;
  const auto number = [entry](const char* key) -> int64_t {
    const auto it = entry->find(key);
    return it != entry->end() && it->is_number_integer() ? it->get<int64_t>() : 0;
  };
  if (entry->value("type", "") == "clock") {
    const int64_t at_ns = number("monotonic_ns");
    const int64_t moved_ns = shift.Of(at_ns) - at_ns;
    for (const char* key :
         {"realtime_ns", "boottime_ns", "monotonic_raw_ns", "monotonic_ns", "tai_ns"}) {
      if (number(key) != 0) (*entry)[key] = number(key) + moved_ns;
    }
    entry->erase("ntp");
  }
  for (const char* key : {"start_ns", "probes_begin_ns", "probes_on_ns", "could_run_ns"}) {
    if (number(key) != 0) (*entry)[key] = shift.Of(number(key));
  }
  if (const auto it = entry->find("host"); it != entry->end() && it->is_object()) {
    (*it)["name"] = host;
    (*it)["boot_id"] = "boot-of-" + host;
    (*it)["machine_id_hash"] = host;
  }
  return true;
}

std::vector<std::string> ShiftMetadata(const Shift& shift, uint32_t pid, const std::string& host,
                                       const std::vector<std::string>& texts) {
  std::vector<std::string> shifted;
  for (const std::string& text : texts) {
    json kept = json::array();
    for (json entry : json::parse(text)) {
      if (ShiftEntry(shift, pid, host, &entry)) kept.push_back(std::move(entry));
    }
    shifted.push_back(kept.dump());
  }
  return shifted;
}

absl::Status ShiftRecords(Shift shift, uint32_t pid, CaptureReader* reader, CaptureWriter* writer) {
  while (true) {
    const absl::StatusOr<RecordBatch> batch = reader->Next();
    if (!batch.ok()) return batch.status();
    if (batch->end) return absl::OkStatus();
    std::vector<std::byte> out;
    ForEachRecord(
        batch->records, [&](const abi::pt_record& head, std::span<const std::byte> record) {
          if (head.pid != pid) return;
          abi::pt_record moved = head;
          if (head.time_ns != 0) {
            moved.time_ns = static_cast<uint64_t>(shift.Of(static_cast<int64_t>(head.time_ns)));
          }
          const size_t at = out.size();
          out.insert(out.end(), record.begin(), record.end());
          std::memcpy(out.data() + at, &moved, sizeof(moved));
        });
    if (out.empty()) continue;
    if (absl::Status status = writer->AppendRecords(out); !status.ok()) return status;
  }
}

absl::Status Run(char** arguments) {
  CaptureReader::Options options;
  options.keep_metadata_text = true;
  auto reader = CaptureReader::Open(arguments[0], options);
  if (!reader.ok()) return reader.status();
  const int fd = open(arguments[1], O_CREAT | O_EXCL | O_RDWR, 0644);
  if (fd < 0) return absl::UnknownError(std::string(arguments[1]) + ": " + std::strerror(errno));
  auto writer = CaptureWriter::Create(fd, arguments[1]);
  if (!writer.ok()) return writer.status();
  const auto pid = static_cast<uint32_t>(std::atoll(arguments[2]));
  const std::string host = arguments[3];
  const Shift shift{(*reader)->metadata().info.window.start_ns, std::atoll(arguments[4]),
                    std::atoll(arguments[5]), std::atoll(arguments[6]), std::atoll(arguments[7])};
  const std::vector<std::string> metadata =
      ShiftMetadata(shift, pid, host, (*reader)->metadata_text());
  if (absl::Status status = (*writer)->AppendMetadata(metadata); !status.ok()) return status;
  if (absl::Status status = ShiftRecords(shift, pid, reader->get(), writer->get()); !status.ok()) {
    return status;
  }
  return (*writer)->Finish();
}

}  // namespace
}  // namespace proftrace

int main(int count, char** arguments) {
  if (count != 9) {
    std::fprintf(stderr,
                 "usage: shift_capture INPUT OUTPUT PID HOST OFFSET_NS PPB STEP_AT_NS STEP_NS\n");
    return 2;
  }
  const absl::Status status = proftrace::Run(arguments + 1);
  if (status.ok()) return 0;
  std::fprintf(stderr, "shift_capture: %s\n", std::string(status.message()).c_str());
  return 1;
}
