#include "exporters/events_csv.h"

#include <algorithm>
#include <string>
#include <vector>

#include "exporters/escape.h"
#include "exporters/text_writer.h"

namespace proftrace {
namespace {

constexpr std::string_view kHeader =
    "id,parent_id,depth,path,name,overload_name,category,scope,pid,tid,thread_name,start_ns,"
    "duration_ns,self_ns,device_type,device_index,stream,correlation_id,external_id,sequence_nr,"
    "fwd_tid,is_async,step,input_shapes,input_types,input_strides,concrete_inputs,cpu_memory_bytes,"
    "self_cpu_memory_bytes,device_memory_bytes,self_device_memory_bytes,flops,on_cpu_ns,off_cpu_ns,"
    "module,module_class,stack,args,end\n";
constexpr std::string_view kAfterSelf = ",CPU,,,,";              // device_type to correlation_id
constexpr std::string_view kAfterExternalId = ",,,";             // sequence_nr, fwd_tid
constexpr std::string_view kAfterIsAsync = ",,,,,,,,,,,,,,,,,";  // step to args
constexpr size_t kPathCacheBytes = 16 * 1024 * 1024;
constexpr size_t kMaxRowNumbersBytes = 9 * kMaxNumberBytes + 128;

class EventsCsvWriter {
 public:
  EventsCsvWriter(const Timeline& timeline, ByteSink& sink) : timeline_(timeline), writer_(sink) {
    for (const Label& label : timeline.labels()) {
      escaped_names_.push_back(CsvEscaped(label.name));
      needs_quotes_.push_back(CsvNeedsQuotes(label.name));
      label_cells_.push_back("," + CsvField(label.name) + "," + CsvField(label.overload_name) +
                             "," + std::string(CategoryName(label.category)) + "," +
                             std::string(ScopeName(label.scope)) + ",");
    }
    for (const Thread& thread : timeline.threads()) {
      thread_cells_.push_back(std::to_string(Raw(thread.pid)) + "," +
                              std::to_string(Raw(thread.tid)) + "," + CsvField(thread.name) + ",");
    }
    path_cells_.resize(timeline.paths().size());
  }

  absl::Status Run() {
    writer_.Text(kHeader);
    const SpanStore& spans = timeline_.spans();
    for (uint32_t chunk = 0; chunk < spans.chunk_count() && writer_.ok(); ++chunk) {
      const uint32_t first = chunk * SpanStore::kChunkSpans;
      const uint32_t last = std::min(spans.size() - first, SpanStore::kChunkSpans) + first;
      for (uint32_t index = first; index < last; ++index) WriteRow(index, spans.at(index));
      spans.Release(chunk);
    }
    return writer_.Flush();
  }

 private:
  // The quoted names from the root, joined by '/'. Kept for the paths met first, as long as there
  // is room.
  std::string_view PathCell(PathId path) {
    std::string& cached = path_cells_[Raw(path)];
    if (!cached.empty()) return cached;
    BuildPathCell(path);
    if (cache_bytes_ + path_cell_.size() > kPathCacheBytes) return path_cell_;
    cache_bytes_ += path_cell_.size();
    cached = path_cell_;
    return cached;
  }

  void BuildPathCell(PathId path) {
    labels_to_root_.clear();
    bool needs_quotes = false;
    for (PathId at = path; at != kRootPath; at = timeline_.path(at).parent) {
      const uint32_t label = Raw(timeline_.path(at).label);
      labels_to_root_.push_back(label);
      needs_quotes = needs_quotes || needs_quotes_[label];
    }
    path_cell_.clear();
    if (needs_quotes) path_cell_.push_back('"');
    for (size_t i = labels_to_root_.size(); i-- > 0;) {
      path_cell_ += escaped_names_[labels_to_root_[i]];
      if (i > 0) path_cell_.push_back('/');
    }
    if (needs_quotes) path_cell_.push_back('"');
  }

  void WriteRow(uint32_t index, const Span& span) {
    const std::string_view path = PathCell(span.path);
    const std::string& label = label_cells_[Raw(span.label)];
    const std::string& thread = thread_cells_[Raw(span.thread)];
    char* at = writer_.Reserve(kMaxRowNumbersBytes + path.size() + label.size() + thread.size());
    at = PutInteger(at, index);
    *at++ = ',';
    if (span.parent != kNoSpan) at = PutInteger(at, Raw(span.parent));
    *at++ = ',';
    at = PutInteger(at, span.depth);
    *at++ = ',';
    at = PutText(at, path);
    at = PutText(at, label);
    at = PutText(at, thread);
    at = PutInteger(at, timeline_.ToUnixNs(span.start_ns));
    *at++ = ',';
    at = PutInteger(at, span.duration_ns);
    *at++ = ',';
    at = PutInteger(at, span.self_ns);
    at = PutText(at, kAfterSelf);
    at = PutInteger(at, uint64_t{index} + 1);  // the trace's "External id"
    at = PutText(at, kAfterExternalId);
    *at++ = span.is_async ? '1' : '0';
    at = PutText(at, kAfterIsAsync);
    at = PutText(at, SpanEndName(span.end));
    at = PutText(at, "\n");
    writer_.Advance(at);
  }

  const Timeline& timeline_;
  TextWriter writer_;
  std::vector<std::string> escaped_names_;
  std::vector<bool> needs_quotes_;
  std::vector<std::string> label_cells_;   // ",name,overload_name,category,scope,"
  std::vector<std::string> thread_cells_;  // "pid,tid,thread_name,"
  std::vector<std::string> path_cells_;
  size_t cache_bytes_ = 0;
  std::vector<uint32_t> labels_to_root_;
  std::string path_cell_;
};

}  // namespace

absl::Status ExportEventsCsv(const Timeline& timeline, ByteSink& sink) {
  return EventsCsvWriter(timeline, sink).Run();
}

}  // namespace proftrace
