#include "userspace/fleet/chrome_merge.h"

#include "exporters/sinks/json_writer.h"
#include "exporters/sinks/text_writer.h"
#include "userspace/fleet/chrome_event.h"
#include "userspace/fleet/merged_ids.h"
#include "userspace/fleet/merged_names.h"

namespace proftrace {
namespace {

class ChromeMerge : public MergeWriter {
 public:
  explicit ChromeMerge(ByteSink& sink) : writer_(sink) {}

  absl::Status Begin(const MergeHead& head) override {
    base_ns_ = head.base_ns;
    ids_.emplace(head.processes);
    json_.BeginObject();
    json_.Line().Key("schemaVersion").Integer(1);
    json_.Line().Key("proftrace_merge").Raw(head.summary);
    json_.Line().Key("displayTimeUnit").Word("ms");
    json_.Line().Key("baseTimeNanoseconds").Integer(base_ns_);
    json_.Line().Key("traceEvents").BeginArray();
    return Check();
  }

  absl::Status BeginPart(const MergePart& part) override {
    part_ = part;
    ids_->BeginPart(part.process);
    names_.Clear();
    return absl::OkStatus();
  }

  absl::Status Event(const SourceEvent& event, uint64_t link, bool* is_written) override {
    *is_written = true;
    const int64_t pid = ids_->PidOf(event.pid);
    const int64_t tid = ids_->TidOf(pid, event.tid);
    names_.SetOriginal(pid, event.pid);
    if (event.phase == 'M') {
      if (names_.Take(event, pid, tid)) return absl::OkStatus();
    } else {
      names_.AddRow(pid, tid);
    }
    ChromeEvent out = {event, pid, tid, base_ns_};
    if (link != 0) {
      out.id = MergedIds::IdOfLink(link);
    } else if (event.id && event.phase != 'C') {
      out.id = ids_->IdOf(event.category, *event.id);
    }
    WriteChromeEvent(out, &json_.Line());
    return Check();
  }

  absl::Status EndPart() override {
    for (const auto& [pid, process] : names_.processes()) {
      if (!process.has_rows) continue;
      const std::string& name = process.name.empty() ? process.original : process.name;
      WriteMetadata("process_name", pid, 0,
                    JsonObjectOf("name", part_.label + (name.empty() ? "" : " " + name)));
      std::string labels = process.labels;
      if (!part_.detail.empty()) labels += (labels.empty() ? "" : ", ") + part_.detail;
      WriteMetadata("process_labels", pid, 0, JsonObjectOf("labels", labels));
      const int64_t place = int64_t{part_.process} * MergedIds::kPidsOfProcess +
                            (part_.facts == nullptr ? 0 : PlaceInRank(process));
      WriteMetadata("process_sort_index", pid, 0, JsonObjectOf("sort_index", place));
      for (const auto& [tid, thread] : process.threads) {
        if (!thread.has_rows) continue;
        if (!thread.name.empty()) {
          WriteMetadata("thread_name", pid, tid,
                        JsonObjectOf("name", part_.label + " " + thread.name));
        }
        if (thread.sort_index) {
          WriteMetadata("thread_sort_index", pid, tid,
                        JsonObjectOf("sort_index", *thread.sort_index));
        }
      }
    }
    return Check();
  }

  absl::Status Finish() override {
    json_.EndLine();
    json_.EndArray();
    json_.EndLine();
    json_.EndObject();
    json_.EndLine();
    return json_.Done().Flush();
  }

 private:
  void WriteMetadata(std::string_view name, int64_t pid, int64_t tid, const std::string& args) {
    SourceEvent event;
    event.phase = 'M';
    event.name = name;
    event.args = args;
    WriteChromeEvent({event, pid, tid, base_ns_}, &json_.Line());
  }

  absl::Status Check() { return writer_.ok() ? absl::OkStatus() : writer_.Flush(); }

  TextWriter writer_;
  JsonStream json_{writer_};
  int64_t base_ns_ = 0;
  MergePart part_;
  std::optional<MergedIds> ids_;
  MergedNames names_;
};

}  // namespace

std::unique_ptr<MergeWriter> NewChromeMerge(ByteSink& sink) {
  return std::make_unique<ChromeMerge>(sink);
}

}  // namespace proftrace
