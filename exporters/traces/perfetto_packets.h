// The packets of a Perfetto trace (protos/perfetto/trace/trace_packet.proto), one after the other.
// Readers put them in the order of their times; packets of the same time stay in that of the file.
//
// Times are CLOCK_MONOTONIC, and so is the trace's own clock. Tracks have ids of the caller's
// choice, none of them 0, and are described before anything is on them. Slices of one track must
// nest; each Begin() has its End().
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "exporters/sinks/protobuf.h"
#include "exporters/sinks/text_writer.h"

namespace proftrace {

// GenericKernelTaskStateEvent.TaskStateEnum.
enum class PerfettoTaskState : uint8_t {
  kRunnable = 2,
  kRunning = 3,
  kInterruptibleSleep = 4,
  kUninterruptibleSleep = 5,
  kDead = 7,
};

// An arrow from one slice or instant to another: the same id on both.
struct PerfettoArrows {
  std::vector<uint64_t> from_here;
  std::vector<uint64_t> to_here;
};

class PerfettoPackets {
 public:
  // `sink` must outlive this; the caller finishes it.
  explicit PerfettoPackets(ByteSink& sink) : writer_(sink) {}

  // Begins the trace: Unix time was `unix_ns` when the clock of the times was `time_ns`. To be
  // called first of all.
  void BeginTrace(int64_t time_ns, int64_t unix_ns);
  // Begins the part of another machine, of which all is that follows: its rows have the same clock,
  // but tracks, processes and threads of its own. 0 is the machine that BeginTrace() began with. A
  // machine may be begun again.
  void BeginMachine(uint32_t machine, int64_t time_ns, int64_t unix_ns);
  // Writes a text beside the rows, in the table of metadata.
  void Metadata(std::string_view key, std::string_view value);

  void DescribeProcess(uint64_t track, uint32_t pid, std::string_view name);
  void DescribeThread(uint64_t track, uint32_t pid, uint32_t tid, std::string_view name);
  void DescribeTrack(uint64_t track, uint64_t parent, std::string_view name);
  void DescribeBytesCounter(uint64_t track, uint64_t parent, std::string_view name);
  void DescribeCounter(uint64_t track, uint64_t parent, std::string_view name);

  // `args`: the inside of a JSON object, without braces.
  void Begin(uint64_t track, int64_t time_ns, std::string_view category, std::string_view name,
             std::string_view args, const PerfettoArrows& arrows);
  void End(uint64_t track, int64_t time_ns);
  void Instant(uint64_t track, int64_t time_ns, std::string_view category, std::string_view name,
               std::string_view args, const PerfettoArrows& arrows);
  void Counter(uint64_t track, int64_t time_ns, int64_t value);
  void Counter(uint64_t track, int64_t time_ns, double value);
  // Writes an end of an arrow, on the slice that is open on the track: Chrome's phases s, t and f.
  // Both ends have the same category and name.
  void ArrowEnd(uint64_t track, int64_t time_ns, std::string_view category, std::string_view name,
                char phase, uint64_t id);
  // Writes what a thread does from now on. `cpu`: the CPU that it has, or had up to now.
  void TaskState(uint32_t tid, std::string_view thread_name, int64_t time_ns,
                 PerfettoTaskState state, uint32_t cpu);

  bool ok() const { return writer_.ok(); }
  absl::Status Flush() { return writer_.Flush(); }

 private:
  using Numbers = absl::flat_hash_map<std::string, int64_t>;

  void BeginSequence(int64_t time_ns, int64_t unix_ns);
  void DescribeCounter(uint64_t track, uint64_t parent, std::string_view name,
                       const ProtobufMessage& counter);
  int64_t Intern(uint32_t table, std::string_view name, Numbers* numbers);
  void Event(int type, uint64_t track, int64_t time_ns, std::string_view category,
             std::string_view name, std::string_view args, const PerfettoArrows& arrows);
  void Describe(const ProtobufMessage& descriptor);
  void Write(int64_t time_ns, uint32_t field, const ProtobufMessage& content);
  void WritePacket(ProtobufMessage packet);

  TextWriter writer_;
  uint32_t machine_ = 0;
  Numbers names_;
  Numbers categories_;
  ProtobufMessage new_names_;  // that the next packet tells of
};

}  // namespace proftrace
