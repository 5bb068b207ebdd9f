#include "exporters/memory/memory_viz.h"

#include <absl/container/flat_hash_map.h>

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "exporters/sinks/escape.h"
#include "exporters/sinks/text_writer.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/saturating.h"

namespace proftrace {
namespace {

// The most entries, which a browser can still show. The last ones are kept, as in torch's own ring.
constexpr uint32_t kMostEntries = 4'000'000;

// Python's pickle protocol 4, the opcodes that memory_viz reads (Lib/pickletools.py). Each text and
// each list of frames is written once; later uses refer to it.
class PickleWriter {
 public:
  explicit PickleWriter(ByteSink& sink) : writer_(sink) { Byte(0x80), Byte(4); }

  void Mark() { Byte('('); }
  void EmptyDict() { Byte('}'); }
  void SetItems() { Byte('u'); }
  void EmptyList() { Byte(']'); }
  void Appends() { Byte('e'); }
  void Integer(int64_t value) {
    if (value >= 0 && value < 256) {
      Byte('K');
      Bytes(static_cast<uint64_t>(value), 1);
    } else if (value >= INT32_MIN && value <= INT32_MAX) {
      Byte('J');
      Bytes(static_cast<uint64_t>(value), 4);
    } else {
      // LONG1 is little endian, in two's complement, without redundant bytes.
      int count = 5;
      while (count < 8 && value >> (8 * count - 1) != 0 && value >> (8 * count - 1) != -1) ++count;
      Byte(0x8a);
      Byte(static_cast<uint8_t>(count));
      Bytes(static_cast<uint64_t>(value), count);
    }
  }
  // Writes an address or another number without a sign.
  void Unsigned(uint64_t value) {
    if (value <= static_cast<uint64_t>(INT64_MAX)) {
      Integer(static_cast<int64_t>(value));
      return;
    }
    Byte(0x8a);
    Byte(9);
    Bytes(value, 8);
    Byte(0);
  }
  void Text(const std::string& text) {
    const auto [it, is_new] = texts_.try_emplace(text, memos_);
    if (!is_new) {
      Get(it->second);
      return;
    }
    const std::string valid = ToValidUtf8(text);
    Byte('X');
    Bytes(valid.size(), 4);
    writer_.Text(valid);
    Memoize();
  }
  // Memoizes the object on top of the stack, so that it can be referred to. Returns its number.
  uint32_t Memoize() {
    Byte(0x94);
    return memos_++;
  }
  void Get(uint32_t memo) {
    Byte(memo < 256 ? 'h' : 'j');
    Bytes(memo, memo < 256 ? 1 : 4);
  }
  absl::Status Finish() {
    Byte('.');
    return writer_.Flush();
  }

 private:
  void Byte(uint8_t byte) {
    char* at = writer_.Reserve(1);
    *at = static_cast<char>(byte);
    writer_.Advance(at + 1);
  }
  void Bytes(uint64_t value, int count) {
    for (int i = 0; i < count; ++i) Byte(static_cast<uint8_t>(value >> (8 * i)));
  }

  TextWriter writer_;
  uint32_t memos_ = 0;
  absl::flat_hash_map<std::string, uint32_t> texts_;
};

using TraceKey = std::tuple<uint32_t, int, int>;  // pid, device type, device index

TraceKey KeyOf(const Timeline& timeline, const MemoryEvent& event) {
  return {Raw(timeline.thread(event.thread).pid), event.device_type, event.device_index};
}

class SnapshotWriter {
 public:
  SnapshotWriter(const Timeline& timeline, ByteSink& sink) : timeline_(timeline), pickle_(sink) {}

  absl::Status Run() {
    const MemoryEventStore& events = timeline_.memory_events();
    first_ = events.size() > kMostEntries ? events.size() - kMostEntries : 0;
    std::map<TraceKey, std::vector<uint32_t>> traces;
    for (uint32_t i = first_; i < events.size(); ++i) {
      const MemoryEvent& event = events.at(i);
      // Readers need the free memory of the device when an allocation failed, which cannot be seen
      // from outside of the process.
      if (event.kind == MemoryEventKind::kOutOfMemory) {
        ++failed_;
        continue;
      }
      traces[KeyOf(timeline_, event)].push_back(i);
    }
    pickle_.EmptyDict();
    pickle_.Mark();
    pickle_.Text("segments");
    pickle_.EmptyList();
    pickle_.Text("device_traces");
    pickle_.EmptyList();
    pickle_.Mark();
    for (const auto& [key, entries] : traces) {
      pickle_.EmptyList();
      pickle_.Mark();
      for (const uint32_t index : entries) WriteEntry(events.at(index));
      pickle_.Appends();
    }
    pickle_.Appends();
    pickle_.Text("proftrace");
    WriteDescription(traces);
    pickle_.SetItems();
    return pickle_.Finish();
  }

 private:
  void WriteEntry(const MemoryEvent& event) {
    pickle_.EmptyDict();
    pickle_.Mark();
    pickle_.Text("action");
    pickle_.Text(event.bytes > 0 ? "alloc" : "free_completed");
    pickle_.Text("addr");
    pickle_.Unsigned(event.address);
    pickle_.Text("size");
    pickle_.Integer(event.bytes < 0 ? SaturatingDifference(0, event.bytes) : event.bytes);
    pickle_.Text("stream");
    pickle_.Integer(0);
    pickle_.Text("time_us");
    pickle_.Integer(timeline_.ToUnixNs(event.time_ns) / 1000);
    pickle_.Text("frames");
    WriteFrames(event.parent == kNoSpan ? kRootPath : timeline_.span(event.parent).path,
                event.stack);
    pickle_.SetItems();
  }

  void WriteFrames(PathId path, StackId stack) {
    const auto [it, is_new] = frames_.try_emplace(std::pair(Raw(path), Raw(stack)));
    if (!is_new) {
      pickle_.Get(it->second);
      return;
    }
    pickle_.EmptyList();
    it->second = pickle_.Memoize();
    pickle_.Mark();
    for (PathId at = path; at != kRootPath; at = timeline_.path(at).parent) {
      WriteFrame(timeline_.label(timeline_.path(at).label).name, "", 0);
    }
    for (StackId at = stack; at != kNoStack; at = timeline_.python_frame(at).parent) {
      const PythonFrame& frame = timeline_.python_frame(at);
      const PythonCode& code = timeline_.python_codes()[frame.code];
      WriteFrame(code.name, code.file, frame.line != 0 ? frame.line : code.first_line);
    }
    pickle_.Appends();
  }

  void WriteFrame(const std::string& name, const std::string& file, int32_t line) {
    pickle_.EmptyDict();
    pickle_.Mark();
    pickle_.Text("name");
    pickle_.Text(name);
    pickle_.Text("filename");
    pickle_.Text(file);
    pickle_.Text("line");
    pickle_.Integer(line);
    pickle_.SetItems();
  }

  // Writes the process and device of each trace, and the entries that are missing.
  void WriteDescription(const std::map<TraceKey, std::vector<uint32_t>>& traces) {
    pickle_.EmptyDict();
    pickle_.Mark();
    pickle_.Text("device_traces");
    pickle_.EmptyList();
    pickle_.Mark();
    for (const auto& [key, entries] : traces) {
      pickle_.EmptyDict();
      pickle_.Mark();
      pickle_.Text("pid");
      pickle_.Integer(std::get<0>(key));
      pickle_.Text("device");
      pickle_.Text(std::string(DeviceTypeName(static_cast<uint8_t>(std::get<1>(key)))));
      pickle_.Text("index");
      pickle_.Integer(std::get<2>(key));
      pickle_.SetItems();
    }
    pickle_.Appends();
    pickle_.Text("left_out");
    pickle_.Integer(first_);
    pickle_.Text("out_of_memory");
    pickle_.Integer(failed_);
    pickle_.Text("inconsistent_processes");
    pickle_.Integer(static_cast<int64_t>(timeline_.memory_summary().inconsistent_processes));
    pickle_.SetItems();
  }

  const Timeline& timeline_;
  PickleWriter pickle_;
  uint32_t first_ = 0;  // the first event that is shown
  int64_t failed_ = 0;  // failed allocations, which have no entry
  // The memoized list of frames, by path and stack.
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, uint32_t> frames_;
};

}  // namespace

absl::Status ExportMemoryViz(const Timeline& timeline, ByteSink& sink) {
  if (!timeline.has_memory()) {
    return Fail(ExitCode::kUsage,
                "this recording has no memory events; record with --profile-memory");
  }
  return SnapshotWriter(timeline, sink).Run();
}

}  // namespace proftrace
