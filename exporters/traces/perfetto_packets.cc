#include "exporters/traces/perfetto_packets.h"

#include <bit>

#include "exporters/sinks/escape.h"

namespace proftrace {
namespace {

// Numbers of fields in protos/perfetto/trace/.
constexpr uint32_t kTracePacket = 1;
enum PacketField : uint32_t {
  kChromeEvents = 5,
  kClockSnapshot = 6,
  kTimestamp = 8,
  kTrustedPacketSequenceId = 10,
  kTrackEvent = 11,
  kInternedData = 12,
  kSequenceFlags = 13,
  kTimestampClockId = 58,
  kTracePacketDefaults = 59,
  kTrackDescriptor = 60,
  kMachineId = 98,
  kGenericKernelTaskStateEvent = 117,
};
enum SequenceFlag : int64_t { kStateCleared = 1, kNeedsState = 2 };
enum BuiltinClock : int64_t { kRealtime = 1, kMonotonic = 3 };
enum ClockSnapshotField : uint32_t { kClock = 1, kPrimaryTraceClock = 2 };
enum ClockField : uint32_t { kClockId = 1, kClockTime = 2 };
enum ChromeEventsField : uint32_t { kChromeMetadata = 2 };
enum ChromeMetadataField : uint32_t { kMetadataName = 1, kMetadataText = 2 };
enum TrackField : uint32_t {
  kUuid = 1,
  kTrackName = 2,
  kProcess = 3,
  kThread = 4,
  kParentUuid = 5,
  kCounter = 8,
};
enum ProcessField : uint32_t { kProcessPid = 1, kProcessName = 6 };
enum ThreadField : uint32_t { kThreadPid = 1, kThreadTid = 2, kThreadName = 5 };
enum CounterField : uint32_t { kUnit = 3 };
constexpr int64_t kUnitSizeBytes = 3;
enum EventField : uint32_t {
  kCategoryIids = 3,
  kDebugAnnotations = 4,
  kLegacyEvent = 6,
  kType = 9,
  kNameIid = 10,
  kTrackUuid = 11,
  kCounterValue = 30,
  kDoubleCounterValue = 44,
  kFlowIds = 47,
  kTerminatingFlowIds = 48,
};
enum EventType : int { kSliceBegin = 1, kSliceEnd = 2, kInstant = 3, kCounterPoint = 4 };
enum LegacyEventField : uint32_t { kPhase = 2, kUnscopedId = 6, kBindToEnclosing = 12 };
enum AnnotationField : uint32_t { kLegacyJsonValue = 9, kAnnotationName = 10 };
enum InternedField : uint32_t { kEventCategories = 1, kEventNames = 2 };
enum InternedNameField : uint32_t { kIid = 1, kInternedName = 2 };
enum TaskStateField : uint32_t { kTaskCpu = 1, kTaskComm = 2, kTaskTid = 3, kTaskState = 4 };

// All packets are one sequence of one writer.
constexpr int64_t kSequence = 1;

ProtobufMessage ClockAt(BuiltinClock clock, int64_t time_ns) {
  ProtobufMessage message;
  message.Number(kClockId, clock);
  message.Number(kClockTime, time_ns);
  return message;
}

}  // namespace

void PerfettoPackets::BeginTrace(int64_t time_ns, int64_t unix_ns) {
  BeginSequence(time_ns, unix_ns);
}

void PerfettoPackets::BeginMachine(uint32_t machine, int64_t time_ns, int64_t unix_ns) {
  if (machine == machine_) return;
  machine_ = machine;
  names_.clear();
  categories_.clear();
  new_names_.Clear();
  BeginSequence(time_ns, unix_ns);
}

void PerfettoPackets::BeginSequence(int64_t time_ns, int64_t unix_ns) {
  ProtobufMessage defaults;
  defaults.Number(kTimestampClockId, kMonotonic);
  ProtobufMessage snapshot;
  snapshot.Message(kClock, ClockAt(kMonotonic, time_ns));
  snapshot.Message(kClock, ClockAt(kRealtime, unix_ns));
  snapshot.Number(kPrimaryTraceClock, kMonotonic);
  ProtobufMessage packet;
  packet.Number(kTrustedPacketSequenceId, kSequence + machine_);
  packet.Number(kSequenceFlags, kStateCleared);
  packet.Message(kTracePacketDefaults, defaults);
  packet.Message(kClockSnapshot, snapshot);
  WritePacket(packet);
}

void PerfettoPackets::Metadata(std::string_view key, std::string_view value) {
  ProtobufMessage metadata;
  metadata.Bytes(kMetadataName, ToValidUtf8(key));
  metadata.Bytes(kMetadataText, ToValidUtf8(value));
  ProtobufMessage events;
  events.Message(kChromeMetadata, metadata);
  ProtobufMessage packet;
  packet.Number(kTrustedPacketSequenceId, kSequence + machine_);
  packet.Message(kChromeEvents, events);
  WritePacket(packet);
}

void PerfettoPackets::DescribeProcess(uint64_t track, uint32_t pid, std::string_view name) {
  ProtobufMessage process;
  process.Number(kProcessPid, pid);
  process.Bytes(kProcessName, ToValidUtf8(name));
  ProtobufMessage descriptor;
  descriptor.Number(kUuid, static_cast<int64_t>(track));
  descriptor.Message(kProcess, process);
  Describe(descriptor);
}

void PerfettoPackets::DescribeThread(uint64_t track, uint32_t pid, uint32_t tid,
                                     std::string_view name) {
  ProtobufMessage thread;
  thread.Number(kThreadPid, pid);
  thread.Number(kThreadTid, tid);
  thread.Bytes(kThreadName, ToValidUtf8(name));
  ProtobufMessage descriptor;
  descriptor.Number(kUuid, static_cast<int64_t>(track));
  descriptor.Message(kThread, thread);
  Describe(descriptor);
}

void PerfettoPackets::DescribeTrack(uint64_t track, uint64_t parent, std::string_view name) {
  ProtobufMessage descriptor;
  descriptor.Number(kUuid, static_cast<int64_t>(track));
  descriptor.Number(kParentUuid, static_cast<int64_t>(parent));
  descriptor.Bytes(kTrackName, ToValidUtf8(name));
  Describe(descriptor);
}

void PerfettoPackets::DescribeBytesCounter(uint64_t track, uint64_t parent, std::string_view name) {
  ProtobufMessage counter;
  counter.Number(kUnit, kUnitSizeBytes);
  DescribeCounter(track, parent, name, counter);
}

void PerfettoPackets::DescribeCounter(uint64_t track, uint64_t parent, std::string_view name) {
  DescribeCounter(track, parent, name, ProtobufMessage());
}

void PerfettoPackets::DescribeCounter(uint64_t track, uint64_t parent, std::string_view name,
                                      const ProtobufMessage& counter) {
  ProtobufMessage descriptor;
  descriptor.Number(kUuid, static_cast<int64_t>(track));
  descriptor.Number(kParentUuid, static_cast<int64_t>(parent));
  descriptor.Bytes(kTrackName, ToValidUtf8(name));
  descriptor.Message(kCounter, counter);
  Describe(descriptor);
}

void PerfettoPackets::Describe(const ProtobufMessage& descriptor) {
  ProtobufMessage packet;
  packet.Number(kTrustedPacketSequenceId, kSequence + machine_);
  packet.Message(kTrackDescriptor, descriptor);
  WritePacket(packet);
}

void PerfettoPackets::Begin(uint64_t track, int64_t time_ns, std::string_view category,
                            std::string_view name, std::string_view args,
                            const PerfettoArrows& arrows) {
  Event(kSliceBegin, track, time_ns, category, name, args, arrows);
}

void PerfettoPackets::Instant(uint64_t track, int64_t time_ns, std::string_view category,
                              std::string_view name, std::string_view args,
                              const PerfettoArrows& arrows) {
  Event(kInstant, track, time_ns, category, name, args, arrows);
}

void PerfettoPackets::End(uint64_t track, int64_t time_ns) {
  ProtobufMessage event;
  event.Number(kType, kSliceEnd);
  event.Number(kTrackUuid, static_cast<int64_t>(track));
  Write(time_ns, kTrackEvent, event);
}

void PerfettoPackets::Counter(uint64_t track, int64_t time_ns, int64_t value) {
  ProtobufMessage event;
  event.Number(kType, kCounterPoint);
  event.Number(kTrackUuid, static_cast<int64_t>(track));
  event.Number(kCounterValue, value);
  Write(time_ns, kTrackEvent, event);
}

void PerfettoPackets::Counter(uint64_t track, int64_t time_ns, double value) {
  ProtobufMessage event;
  event.Number(kType, kCounterPoint);
  event.Number(kTrackUuid, static_cast<int64_t>(track));
  event.Fixed64(kDoubleCounterValue, std::bit_cast<uint64_t>(value));
  Write(time_ns, kTrackEvent, event);
}

void PerfettoPackets::ArrowEnd(uint64_t track, int64_t time_ns, std::string_view category,
                               std::string_view name, char phase, uint64_t id) {
  ProtobufMessage legacy;
  legacy.Number(kPhase, phase);
  legacy.Number(kUnscopedId, static_cast<int64_t>(id));
  legacy.Number(kBindToEnclosing, 1);
  ProtobufMessage event;
  event.Number(kCategoryIids, Intern(kEventCategories, category, &categories_));
  event.Message(kLegacyEvent, legacy);
  event.Number(kNameIid, Intern(kEventNames, name, &names_));
  event.Number(kTrackUuid, static_cast<int64_t>(track));
  Write(time_ns, kTrackEvent, event);
}

void PerfettoPackets::TaskState(uint32_t tid, std::string_view thread_name, int64_t time_ns,
                                PerfettoTaskState state, uint32_t cpu) {
  ProtobufMessage event;
  event.Number(kTaskCpu, cpu);
  event.Bytes(kTaskComm, ToValidUtf8(thread_name));
  event.Number(kTaskTid, tid);
  event.Number(kTaskState, static_cast<int64_t>(state));
  Write(time_ns, kGenericKernelTaskStateEvent, event);
}

void PerfettoPackets::Event(int type, uint64_t track, int64_t time_ns, std::string_view category,
                            std::string_view name, std::string_view args,
                            const PerfettoArrows& arrows) {
  ProtobufMessage event;
  event.Number(kCategoryIids, Intern(kEventCategories, category, &categories_));
  if (!args.empty()) {
    ProtobufMessage annotation;
    annotation.Bytes(kAnnotationName, "args");
    annotation.Bytes(kLegacyJsonValue, "{" + std::string(args) + "}");
    event.Message(kDebugAnnotations, annotation);
  }
  event.Number(kType, type);
  event.Number(kNameIid, Intern(kEventNames, name, &names_));
  event.Number(kTrackUuid, static_cast<int64_t>(track));
  for (const uint64_t arrow : arrows.from_here) event.Fixed64(kFlowIds, arrow);
  for (const uint64_t arrow : arrows.to_here) event.Fixed64(kTerminatingFlowIds, arrow);
  Write(time_ns, kTrackEvent, event);
}

int64_t PerfettoPackets::Intern(uint32_t table, std::string_view name, Numbers* numbers) {
  const auto next = static_cast<int64_t>(numbers->size()) + 1;
  const auto [it, inserted] = numbers->try_emplace(std::string(name), next);
  if (!inserted) return it->second;
  ProtobufMessage entry;
  entry.Number(kIid, next);
  entry.Bytes(kInternedName, ToValidUtf8(name));
  new_names_.Message(table, entry);
  return next;
}

void PerfettoPackets::Write(int64_t time_ns, uint32_t field, const ProtobufMessage& content) {
  ProtobufMessage packet;
  packet.Number(kTimestamp, time_ns);
  packet.Number(kTrustedPacketSequenceId, kSequence + machine_);
  packet.Number(kSequenceFlags, kNeedsState);
  if (!new_names_.bytes().empty()) {
    packet.Message(kInternedData, new_names_);
    new_names_.Clear();
  }
  packet.Message(field, content);
  WritePacket(packet);
}

void PerfettoPackets::WritePacket(ProtobufMessage packet) {
  if (machine_ != 0) packet.Number(kMachineId, machine_);
  ProtobufMessage trace;
  trace.Message(kTracePacket, packet);
  writer_.Text(trace.bytes());
}

}  // namespace proftrace
