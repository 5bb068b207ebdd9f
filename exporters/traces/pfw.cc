#include "exporters/traces/pfw.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>
#include <fcntl.h>

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "exporters/args/args_text.h"
#include "exporters/sinks/escape.h"
#include "exporters/sinks/text_writer.h"
#include "userspace/aggregate/each_span.h"
#include "userspace/model/system_calls.h"

namespace proftrace {
namespace {

// DFTracer's `ph` and `type`.
constexpr int kComplete = 1;
constexpr int kMetadata = 4;
constexpr int kTracerRow = 1;
constexpr int kAppRow = 2;
constexpr int kIoRow = 3;

constexpr std::string_view kTracerCategory = "dftracer";
constexpr int64_t kNsPerUs = 1000;

// Returns the hash of a name, FNV-1a with 64 bits. Any hash would do that is the same for equal
// names.
std::string HashText(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3;
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text(16, '0');
  for (size_t i = text.size(); i-- > 0; hash >>= 4) text[i] = kDigits[hash & 15];
  return text;
}

// Returns whether these are the flags of opendir(), whatever the ABI's O_LARGEFILE is.
bool IsOpenDir(uint64_t flags) {
  return (flags & O_DIRECTORY) != 0 && (flags & O_NONBLOCK) != 0 && (flags & O_ACCMODE) == O_RDONLY;
}

class PfwWriter {
 public:
  PfwWriter(const Timeline& timeline, ByteSink& sink)
      : timeline_(timeline), writer_(sink), host_hash_(HashText(timeline.info().host.name)) {}

  absl::Status Run() {
    WriteStarts();
    ForEachSpan(timeline_, [this](SpanId /*id*/, const Span& span) {
      WriteEventsBefore(span.start_ns);
      if (timeline_.label(span.label).kind == SpanKind::kAnnotation) WriteRange(span);
    });
    WriteEventsBefore(std::numeric_limits<int64_t>::max());
    WriteEnds();
    return writer_.Flush();
  }

 private:
  int64_t Us(int64_t monotonic_ns) const { return timeline_.ToUnixNs(monotonic_ns) / kNsPerUs; }

  void WriteStarts() {
    absl::flat_hash_set<uint32_t> named;
    for (const Target& target : timeline_.info().targets) {
      if (named.insert(Raw(target.pid)).second) WriteStart(target.pid, target.cmdline, target.ppid);
    }
    for (const Thread& thread : timeline_.threads()) {
      if (named.insert(Raw(thread.pid)).second) WriteStart(thread.pid, {}, Pid{0});
      Define("thread_name", thread.pid, thread.tid,
             thread.name.empty() ? std::to_string(Raw(thread.tid)) : thread.name, "thread_name");
    }
  }

  void WriteStart(Pid pid, const std::vector<std::string>& command, Pid parent) {
    const Tid tid{Raw(pid)};
    Define("HH", pid, tid, timeline_.info().host.name, host_hash_);
    Define("CM", pid, tid, "time_metric", "US");
    std::string words;
    for (const std::string& word : command) words += (words.empty() ? "" : ";") + word;
    ArgsText args;
    args.Text("hhash", host_hash_);
    if (Raw(parent) != 0) args.Unsigned("ppid", Raw(parent));
    if (!words.empty()) args.Text("cmd_hash", Hash("SH", pid, tid, words));
    args.Text("tool", "proftrace " + timeline_.info().proftrace_version);
    const int64_t start_ns = timeline_.info().window.start_ns;
    WriteRow("start", kTracerCategory, kTracerRow, pid, tid, start_ns, start_ns, args.Take());
  }

  void WriteEnds() {
    const Window& window = timeline_.info().window;
    const int64_t end_ns = window.start_ns + window.duration_ns;
    for (const uint32_t pid : pids_in_order_) {
      ArgsText args;
      args.Text("hhash", host_hash_);
      args.Unsigned("num_events", rows_of_process_[pid] - 1);  // without `start`
      WriteRow("end", kTracerCategory, kTracerRow, Pid{pid}, Tid{pid}, end_ns, end_ns, args.Take());
    }
  }

  void WriteRange(const Span& span) {
    ArgsText args;
    args.Text("hhash", host_hash_);
    args.Number("dur_ns", span.duration_ns);
    AddEnd(span.end, &args);
    const Thread& thread = timeline_.thread(span.thread);
    WriteRow(timeline_.label(span.label).name, "torch", kAppRow, thread.pid, thread.tid,
             span.start_ns, span.end_ns(), args.Take());
  }

  void WriteEventsBefore(int64_t until_ns) {
    for (; next_ < timeline_.system_event_count(); ++next_) {
      const SystemEvent& event = timeline_.system_event(next_);
      if (event.start_ns >= until_ns || !writer_.ok()) return;
      if (event.kind == SystemKind::kCall) {
        const SystemCallInfo* info = FindSystemCall(event.call.abi, event.call.number);
        if (info != nullptr && info->is_io) WriteCall(event, *info);
      } else if (event.kind == SystemKind::kRequest) {
        WriteRequest(event);
      }
    }
  }

  // Returns the name that DFTracer has for the function that makes this call; see the header.
  static std::string_view FunctionName(const SystemCallFacts& call, const SystemCallInfo& info) {
    if (info.name == "lseek") return "lseek64";
    if (info.name != "openat" || static_cast<int32_t>(call.arguments[0]) != AT_FDCWD) {
      return info.name;
    }
    return IsOpenDir(call.arguments[2]) ? "opendir" : "open64";
  }

  void WriteCall(const SystemEvent& event, const SystemCallInfo& info) {
    const SystemCallFacts& call = event.call;
    const Thread& thread = timeline_.thread(event.thread);
    ArgsText args;
    args.Text("hhash", host_hash_);
    AddResult(event, call.result, &args);
    bool has_mode = true;
    for (size_t i = 0; i < info.argument_count && i < call.arguments.size(); ++i) {
      const ArgumentKind kind = info.arguments[i].kind;
      // An open that creates nothing has no mode, and its register may hold anything.
      if (kind == ArgumentKind::kOpenFlags) has_mode = (call.arguments[i] & O_CREAT) != 0;
      if (kind != ArgumentKind::kMode || has_mode) {
        AddArgument(info.arguments[i], call.arguments[i], &args);
      }
    }
    const SystemTables tables = timeline_.system_tables();
    const SystemPaths* paths = tables.Paths(call.paths);
    AddFile(event, paths == nullptr ? "" : paths->first, &args);
    if (paths != nullptr && !paths->second.empty()) {
      args.Text("newpath_hash", Hash("FH", thread.pid, thread.tid, paths->second));
    }
    const std::string_view name = FunctionName(call, info);
    if (name != info.name) args.Text("syscall", info.name);
    WriteIo(name, event, &args);
  }

  // Adds an argument under DFTracer's key.
  static void AddArgument(const ArgumentInfo& argument, uint64_t value, ArgsText* args) {
    switch (argument.kind) {
      case ArgumentKind::kOffset:
        if (argument.name == "offset") args->Number("offset", static_cast<int64_t>(value));
        break;
      case ArgumentKind::kSize:
        args->Unsigned("count", value);
        break;
      case ArgumentKind::kUnsigned:
        if (argument.name == "iovcnt") args->Unsigned("iovcnt", static_cast<uint32_t>(value));
        break;
      case ArgumentKind::kWhence:
        args->Number("whence", static_cast<int32_t>(value));
        break;
      case ArgumentKind::kOpenFlags:
        args->Number("flags", static_cast<int32_t>(value));
        break;
      case ArgumentKind::kMode:
        args->Unsigned("mode", static_cast<uint32_t>(value));
        break;
      default:
        break;
    }
  }

  void WriteRequest(const SystemEvent& event) {
    const RequestFacts& request = event.request;
    std::string name = "io_uring_" + RequestName(request.opcode);
    for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    ArgsText args;
    args.Text("hhash", host_hash_);
    AddResult(event, request.result, &args);
    if (request.offset != ~uint64_t{0}) args.Unsigned("offset", request.offset);
    if (request.bytes != ~uint64_t{0}) args.Unsigned("count", request.bytes);
    AddFile(event, "", &args);
    WriteIo(name, event, &args);
  }

  static void AddResult(const SystemEvent& event, int64_t result, ArgsText* args) {
    if (event.end == SpanEnd::kTruncated) return;
    args->Number("ret", result);
    if (result < 0 && result >= -kLastErrno) {
      args->Text("errno", ErrnoName(static_cast<int>(-result)));
    }
  }

  // Adds the file. `path` is used where the file itself is not known.
  void AddFile(const SystemEvent& event, const std::string& path, ArgsText* args) {
    const SystemFile* file = timeline_.system_tables().File(event.file);
    const std::string& name = file != nullptr && !file->name.empty() ? file->name : path;
    if (name.empty()) return;
    const Thread& thread = timeline_.thread(event.thread);
    args->Text("fhash", Hash("FH", thread.pid, thread.tid, name));
  }

  static void AddEnd(SpanEnd end, ArgsText* args) {
    if (end != SpanEnd::kReturn) args->Text("end", SpanEndName(end));
  }

  void WriteIo(std::string_view name, const SystemEvent& event, ArgsText* args) {
    const Thread& thread = timeline_.thread(event.thread);
    args->Number("dur_ns", event.duration_ns);
    AddEnd(event.end, args);
    WriteRow(name, "POSIX", kIoRow, thread.pid, thread.tid, event.start_ns, event.end_ns(),
             args->Take());
  }

  // Returns the hash of a name. Before its first use a row tells the name.
  std::string Hash(std::string_view kind, Pid pid, Tid tid, const std::string& name) {
    const auto [it, inserted] = hashes_.try_emplace(std::string(kind) + name);
    if (inserted) {
      it->second = HashText(name);
      Define(kind, pid, tid, name, it->second);
    }
    return it->second;
  }

  void Define(std::string_view kind, Pid pid, Tid tid, std::string_view name,
              std::string_view value) {
    ArgsText args;
    args.Text("hhash", host_hash_);
    args.Text("name", name);
    args.Text("value", value);
    JsonStream json(writer_);
    json.BeginObject(JsonSpacing::kTight);
    json.Key("name").Word(kind);
    WriteMiddle(kTracerCategory, kTracerRow, pid, tid, &json);
    json.Key("ph").Integer(kMetadata);
    EndRow(args.Take(), &json);
  }

  void WriteRow(std::string_view name, std::string_view category, int type, Pid pid, Tid tid,
                int64_t start_ns, int64_t end_ns, std::string_view args) {
    uint64_t& rows = rows_of_process_[Raw(pid)];
    if (rows++ == 0) pids_in_order_.push_back(Raw(pid));
    JsonStream json(writer_);
    json.BeginObject(JsonSpacing::kTight);
    json.Key("id").Integer(++id_);
    json.Key("name").String(name);
    WriteMiddle(category, type, pid, tid, &json);
    json.Key("ts").Integer(Us(start_ns));
    json.Key("dur").Integer(Us(end_ns) - Us(start_ns));
    json.Key("ph").Integer(kComplete);
    EndRow(args, &json);
  }

  static void WriteMiddle(std::string_view category, int type, Pid pid, Tid tid, JsonStream* json) {
    json->Key("cat").Word(category);
    json->Key("type").Integer(type);
    json->Key("pid").Integer(Raw(pid));
    json->Key("tid").Integer(Raw(tid));
  }

  static void EndRow(std::string_view args, JsonStream* json) {
    json->Key("args").BeginObject();
    json->Members(args);
    json->EndObject();
    json->EndObject();
    json->EndLine();
  }

  const Timeline& timeline_;
  TextWriter writer_;
  std::string host_hash_;
  absl::flat_hash_map<std::string, std::string> hashes_;  // by kind and name
  std::vector<uint32_t> pids_in_order_;
  absl::flat_hash_map<uint32_t, uint64_t> rows_of_process_;
  uint32_t next_ = 0;  // the first event that is not written yet
  uint64_t id_ = 0;
};

}  // namespace

absl::Status ExportPfw(const Timeline& timeline, ByteSink& sink) {
  return PfwWriter(timeline, sink).Run();
}

}  // namespace proftrace
