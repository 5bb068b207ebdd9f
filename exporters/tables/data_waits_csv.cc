#include "exporters/tables/data_waits_csv.h"

#include <string>

#include "exporters/args/system_args.h"
#include "exporters/sinks/escape.h"
#include "exporters/sinks/text_writer.h"
#include "userspace/aggregate/system_text.h"

namespace proftrace {
namespace {

constexpr std::string_view kDataWaitsHeader =
    "step,start_ns,duration_ns,blocked_ns,pid,tid,worker_pid,waker_tid,worker_io_ns,worker_off_ns,"
    "worker_bytes,call,path,call_ns,call_args\n";
constexpr std::string_view kNoWorker = ",,,,,,,,\n";  // waker_tid to call_args
constexpr std::string_view kNoCall = ",,,\n";         // path to call_args

}  // namespace

absl::Status ExportDataWaitsCsv(const Timeline& timeline, const std::vector<DataWait>& waits,
                                ByteSink& sink, CsvText kind) {
  TextWriter writer(sink);
  writer.Text(kDataWaitsHeader);
  for (const DataWait& wait : waits) {
    const Span& span = timeline.span(wait.span);
    const Thread& thread = timeline.thread(span.thread);
    if (wait.step >= 0) writer.Integer(wait.step);
    const auto add = [&writer](int64_t value) {
      writer.Text(",");
      writer.Integer(value);
    };
    add(timeline.ToUnixNs(span.start_ns));
    add(span.duration_ns);
    add(wait.blocked_ns);
    add(Raw(thread.pid));
    add(Raw(thread.tid));
    writer.Text(",");
    if (Raw(wait.worker) == 0) {
      writer.Text(kNoWorker);
      continue;
    }
    writer.Unsigned(Raw(wait.worker));
    add(Raw(wait.waker));
    add(wait.worker_io_ns);
    add(wait.worker_off_ns);
    add(wait.worker_bytes);
    writer.Text(",");
    if (wait.longest_call == kNoSystemEvent) {
      writer.Text(kNoCall);
      continue;
    }
    const SystemEvent& call = timeline.system_event(wait.longest_call);
    writer.Text(CsvField(SystemEventName(call), kind));
    writer.Text(",");
    const SystemPaths* paths = timeline.system_tables().Paths(call.call.paths);
    const SystemFile* file = timeline.system_tables().File(call.file);
    if (file != nullptr) {
      writer.Text(CsvField(file->name, kind));
    } else if (paths != nullptr) {
      writer.Text(CsvField(paths->first, kind));
    }
    add(wait.longest_call_ns);
    writer.Text("," + CsvField("{" + SystemArgs(timeline.system_tables(), call) + "}") + "\n");
  }
  return writer.Flush();
}

}  // namespace proftrace
