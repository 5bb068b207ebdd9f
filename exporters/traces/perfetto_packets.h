// Writes the packets of a Perfetto trace (protos/perfetto/trace/trace_packet.proto), one after the
// other. Readers sort packets by time; packets of the same time stay in the order of the file.
//
// Times are CLOCK_MONOTONIC, and so is the trace's own clock. The caller chooses the ids of tracks,
// which must not be 0, and describes a track before it writes events to it. Slices of one track
// must nest; each Begin() has its End().
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

// The arrows that begin and end at a slice or instant. An arrow has the same id at both ends.
struct PerfettoArrows {
  std::vector<uint64_t> from_here;
  std::vector<uint64_t> to_here;
};

class PerfettoPackets {
 public:
  // `sink` must outlive this; the caller finishes it.
  explicit PerfettoPackets(ByteSink& sink) : writer_(sink) {}

  // Begins the trace. To be called before all other functions. Unix time was `unix_ns` when the
  // clock of the times was `time_ns`.
  void BeginTrace(int64_t time_ns, int64_t unix_ns);
  // Begins the part of another machine, to which all following packets belong. Its rows have the
  // same clock, but tracks, processes and threads of their own. BeginTrace() begins with machine 0.
  // A machine may be begun again.
  void BeginMachine(uint32_t machine, int64_t time_ns, int64_t unix_ns);
  // Writes a text into the trace's table of metadata.
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
  // Writes the state of a thread from `time_ns` on. `cpu`: the CPU that the thread has, or had
  // until then.
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
  ProtobufMessage new_names_;  // names that the next packet defines
};

}  // namespace proftrace
