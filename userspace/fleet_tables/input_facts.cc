#include "userspace/fleet_tables/input_facts.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "exporters/sinks/escape.h"
#include "userspace/base/dumped_json.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/text.h"
#include "userspace/fleet_sources/byte_source.h"

namespace proftrace {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kFactsVersion = 1;
// The most bytes that are read of a file, so that a hostile one ends. A rank's day is smaller.
constexpr size_t kMostBytes = size_t{4} << 30;
constexpr double kConfidenceUnit = 1e4;

// Visits all numbers of a step, in the same order for writing and for reading.
template <typename Row, typename Visit>
void ForEachNumber(Row& row, Visit&& visit) {
  visit(row.pid);
  visit(row.tid);
  visit(row.is_main);
  visit(row.step);
  visit(row.start_ns);
  visit(row.duration_ns);
  for (auto* part : {&row.compute_ns, &row.data_ns, &row.io_ns, &row.lock_ns, &row.event_ns,
                     &row.run_queue_ns, &row.faults_ns, &row.other_ns}) {
    visit(*part);
  }
  for (auto& part : row.why_ns) visit(part);
  for (auto* part : {&row.gpu_busy_ns, &row.gpu_compute_ns, &row.gpu_idle_ns, &row.comm_ns,
                     &row.comm_overlap_ns, &row.comm_exposed_ns, &row.mem_peak_bytes}) {
    visit(*part);
  }
}

template <typename Call, typename Visit>
void ForEachCallNumber(Call& source, Visit&& visit) {
  auto& call = source.call;
  visit(call.group);
  visit(call.sequence);
  visit(call.kind);
  visit(call.is_after_loss);
  visit(call.root);
  visit(call.source);
  visit(call.destination);
  visit(call.bytes);
  visit(call.entered_ns);
  visit(call.left_ns);
  visit(source.place);
  visit(source.in_bytes);
  visit(source.out_bytes);
  visit(source.device);
  visit(source.stream);
  visit(source.launch_ns);
}

// Visits all numbers of a snapshot. `has_ntp`: whether the numbers of `ntp` are valid.
template <typename Snapshot, typename Ntp, typename Flag, typename Visit>
void ForEachSnapshotNumber(Snapshot& snapshot, Ntp& ntp, Flag& has_ntp, Visit&& visit) {
  visit(snapshot.monotonic_ns);
  visit(snapshot.monotonic_raw_ns);
  visit(snapshot.boottime_ns);
  visit(snapshot.realtime_ns);
  visit(snapshot.tai_ns);
  visit(snapshot.gap_ns);
  visit(has_ntp);
  visit(ntp.is_synchronised);
  visit(ntp.max_error_ns);
  visit(ntp.estimated_error_ns);
  visit(ntp.offset_ns);
  visit(ntp.frequency_ppb);
  visit(ntp.status);
}

class NumberLine {
 public:
  explicit NumberLine(char kind) : text_(1, kind) {}
  template <typename T>
  void operator()(const T& number) {
    text_ += ' ';
    if constexpr (requires { number.has_value(); }) {
      text_ += number ? std::to_string(*number) : "-";
    } else {
      text_ += std::to_string(static_cast<int64_t>(number));
    }
  }
  void Text(std::string_view text) {
    text_ += ' ';
    text_ += text;
  }
  std::string Take() { return std::move(text_) + "\n"; }

 private:
  std::string text_;
};

class NumberReader {
 public:
  explicit NumberReader(std::string_view line) : rest_(line) {}
  template <typename T>
  void operator()(T& number) {
    const std::string_view word = Word();
    if constexpr (requires { number.has_value(); }) {
      if (word == "-") {
        number.reset();
        return;
      }
      number.emplace();
      Parse(word, &*number);
    } else {
      Parse(word, &number);
    }
  }
  std::string_view Word() {
    if (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
    const std::string_view word = rest_.substr(0, rest_.find(' '));
    rest_.remove_prefix(word.size());
    return word;
  }
  bool is_whole() const { return is_good_ && rest_.empty(); }

 private:
  template <typename T>
  void Parse(std::string_view word, T* number) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    is_good_ = is_good_ && error == std::errc() && end == word.data() + word.size();
    *number = static_cast<T>(value);
    is_good_ = is_good_ && static_cast<int64_t>(*number) == value;
  }

  std::string_view rest_;
  bool is_good_ = true;
};

template <typename T>
void Put(Json* json, const char* key, const std::optional<T>& value) {
  if (value) (*json)[key] = *value;
}

template <typename T>
void Get(const Json& json, const char* key, std::optional<T>* value) {
  if (json.contains(key)) *value = json.at(key).get<T>();
}

Json HeadJson(const InputFacts& facts) {
  const SourceFacts& source = facts.source;
  Json head = {{"version", kFactsVersion},
               {"id", facts.id},
               {"kind", static_cast<int>(source.kind)},
               {"clock", static_cast<int>(source.clock)},
               {"path", ToValidUtf8(source.path)},
               {"host", ToValidUtf8(source.host)},
               {"job", ToValidUtf8(source.job)},
               {"attempt", source.attempt},
               {"resolution_ns", source.resolution_ns},
               {"events", source.events},
               {"namespace_pids", source.namespace_pids},
               {"unix_offset_ns", facts.unix_offset_ns},
               {"bytes", facts.bytes},
               {"kernel", ToValidUtf8(facts.kernel)},
               {"gpu", ToValidUtf8(facts.gpu)},
               {"torch_version", ToValidUtf8(facts.torch_version)},
               {"cuda_version", ToValidUtf8(facts.cuda_version)},
               {"proftrace_version", ToValidUtf8(facts.proftrace_version)},
               {"unsupported", ToValidUtf8(facts.unsupported)}};
  if (source.boot_id) head["boot_id"] = ToValidUtf8(*source.boot_id);
  Put(&head, "pid", source.pid);
  Put(&head, "rank", source.rank);
  Put(&head, "world_size", source.world_size);
  Put(&head, "local_rank", source.local_rank);
  Put(&head, "first_ns", source.first_ns);
  Put(&head, "last_ns", source.last_ns);
  Put(&head, "cpus", facts.cpus);
  Put(&head, "lost", facts.lost);
  Put(&head, "overhead_percent", facts.overhead_percent);
  Put(&head, "window_end_s", facts.window_end_s);
  if (!facts.steps.empty() && facts.steps.front().confidence) {
    head["confidence"] = std::llround(facts.steps.front().confidence->value * kConfidenceUnit);
  }
  head["groups"] = Json::array();
  for (size_t i = 0; i < source.groups.size(); ++i) {
    head["groups"].push_back({ToValidUtf8(source.groups[i].name), source.groups[i].ranks,
                              ToValidUtf8(source.group_descriptions[i])});
  }
  head["remarks"] = Json::array();
  for (const std::string& remark : source.remarks) head["remarks"].push_back(ToValidUtf8(remark));
  return head;
}

void ReadHead(const Json& head, InputFacts* facts) {
  SourceFacts& source = facts->source;
  head.at("id").get_to(facts->id);
  source.kind = static_cast<SourceKind>(head.at("kind").get<int>());
  source.clock = static_cast<SourceClock>(head.at("clock").get<int>());
  head.at("path").get_to(source.path);
  head.at("host").get_to(source.host);
  head.at("job").get_to(source.job);
  head.at("attempt").get_to(source.attempt);
  head.at("resolution_ns").get_to(source.resolution_ns);
  head.at("events").get_to(source.events);
  head.at("namespace_pids").get_to(source.namespace_pids);
  head.at("unix_offset_ns").get_to(facts->unix_offset_ns);
  head.at("bytes").get_to(facts->bytes);
  head.at("kernel").get_to(facts->kernel);
  head.at("gpu").get_to(facts->gpu);
  head.at("torch_version").get_to(facts->torch_version);
  head.at("cuda_version").get_to(facts->cuda_version);
  head.at("proftrace_version").get_to(facts->proftrace_version);
  head.at("unsupported").get_to(facts->unsupported);
  Get(head, "boot_id", &source.boot_id);
  Get(head, "pid", &source.pid);
  Get(head, "rank", &source.rank);
  Get(head, "world_size", &source.world_size);
  Get(head, "local_rank", &source.local_rank);
  Get(head, "first_ns", &source.first_ns);
  Get(head, "last_ns", &source.last_ns);
  Get(head, "cpus", &facts->cpus);
  Get(head, "lost", &facts->lost);
  Get(head, "overhead_percent", &facts->overhead_percent);
  Get(head, "window_end_s", &facts->window_end_s);
  for (const Json& group : head.at("groups")) {
    source.groups.push_back(
        {group.at(0).get<std::string>(), group.at(1).get<std::vector<int32_t>>()});
    source.group_descriptions.push_back(group.at(2).get<std::string>());
  }
  head.at("remarks").get_to(source.remarks);
}

std::string SnapshotLine(const ClockSnapshot& snapshot) {
  NumberLine line('t');
  const NtpState ntp = snapshot.ntp.value_or(NtpState());
  const bool has_ntp = snapshot.ntp.has_value();
  ForEachSnapshotNumber(snapshot, ntp, has_ntp, line);
  return line.Take();
}

std::string CallLine(char kind, const SourceCall& call) {
  NumberLine line(kind);
  ForEachCallNumber(call, line);
  line.Text(call.op);  // torch's names have no blanks
  return line.Take();
}

bool ReadCall(NumberReader* reader, SourceCall* call) {
  ForEachCallNumber(*call, *reader);
  call->op = std::string(reader->Word());
  return reader->is_whole() && call->call.kind <= CollectiveKind::kNoDependence &&
         call->place <= CallPlace::kHost && call->call.left_ns >= call->call.entered_ns;
}

class FactsReader {
 public:
  explicit FactsReader(InputFacts* facts) : facts_(*facts) {}

  // Reads the first facts of `text`, and removes them from it.
  bool Take(std::string_view* text) {
    std::optional<uint64_t> told;
    uint64_t lines = 0;
    while (!text->empty() && !told) {
      const size_t end = text->find('\n');
      if (end == std::string_view::npos) return false;
      const std::string_view line = text->substr(0, end);
      text->remove_prefix(end + 1);
      if (lines++ == 0) {
        if (!ReadFirst(line)) return false;
      } else if (line.starts_with("end ")) {
        told = ParseNumber<uint64_t>(line.substr(4));
        if (!told || *told != lines) return false;
      } else if (!ReadLine(line)) {
        return false;
      }
    }
    return told.has_value();
  }

 private:
  bool ReadFirst(std::string_view line) {
    const Json head = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!head.is_object()) return false;
    try {
      if (head.at("version") != kFactsVersion) return false;
      ReadHead(head, &facts_);
      confidence_ = head.value("confidence", int64_t{0});
    } catch (const Json::exception&) {
      return false;
    }
    return facts_.source.kind <= SourceKind::kNsight && facts_.source.clock <= SourceClock::kOwn;
  }

  bool ReadLine(std::string_view line) {
    if (line.size() < 2) return false;
    NumberReader reader(line.substr(1));
    if (line.front() == 's') {
      StepRow& step = facts_.steps.emplace_back();
      ForEachNumber(step, reader);
      step.confidence = Decimal{static_cast<double>(confidence_) / kConfidenceUnit, 4};
      return reader.is_whole();
    }
    if (line.front() == 't') {
      ClockSnapshot& snapshot = facts_.source.snapshots.emplace_back();
      NtpState ntp;
      bool has_ntp = false;
      ForEachSnapshotNumber(snapshot, ntp, has_ntp, reader);
      if (has_ntp) snapshot.ntp = ntp;
      return reader.is_whole();
    }
    if (line.front() != 'c' && line.front() != 'g') return false;
    SourceFacts& source = facts_.source;
    const bool has_group = line.front() == 'c';
    SourceCall& call = (has_group ? source.calls : source.calls_without_group).emplace_back();
    return ReadCall(&reader, &call) && (!has_group || call.call.group < source.groups.size());
  }

  InputFacts& facts_;
  int64_t confidence_ = 0;
};

}  // namespace

std::optional<int64_t> StepAt(const std::vector<StepRow>& steps, int64_t time_ns) {
  // Steps of other threads come after those of the driving thread.
  const auto end =
      std::find_if(steps.begin(), steps.end(), [](const StepRow& step) { return !step.is_main; });
  const auto after =
      std::upper_bound(steps.begin(), end, time_ns,
                       [](int64_t time, const StepRow& step) { return time < step.start_ns; });
  if (after == steps.begin()) return std::nullopt;
  const StepRow& step = *(after - 1);
  return time_ns < step.start_ns + step.duration_ns ? std::optional(step.step) : std::nullopt;
}

absl::Status WriteInputFacts(const InputFacts& facts, ByteSink& sink) {
  uint64_t lines = 1;
  absl::Status status = sink.Write(DumpedJson(HeadJson(facts)) + "\n");
  const auto write = [&](const std::string& line) {
    ++lines;
    if (status.ok()) status = sink.Write(line);
  };
  for (const ClockSnapshot& snapshot : facts.source.snapshots) write(SnapshotLine(snapshot));
  for (const StepRow& step : facts.steps) {
    NumberLine line('s');
    ForEachNumber(step, line);
    write(line.Take());
  }
  for (const SourceCall& call : facts.source.calls) write(CallLine('c', call));
  for (const SourceCall& call : facts.source.calls_without_group) write(CallLine('g', call));
  write("end " + std::to_string(lines + 1) + "\n");
  return status;
}

absl::StatusOr<std::string> ReadFactsText(const std::string& path) {
  absl::StatusOr<std::unique_ptr<ByteSource>> source = OpenByteSource(path);
  if (!source.ok()) return source.status();
  std::string text;
  size_t size = 0;
  while (size < kMostBytes) {
    text.resize(std::max<size_t>(size * 2, size_t{64} << 10));
    const absl::StatusOr<size_t> got = (*source)->Read(text.data() + size, text.size() - size);
    if (!got.ok()) return got.status();
    if (*got == 0) break;
    size += *got;
  }
  text.resize(size);
  return text;
}

absl::StatusOr<std::vector<std::unique_ptr<InputFacts>>> ReadInputFacts(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFactsText(path);
  if (!text.ok()) return text.status();
  std::vector<std::unique_ptr<InputFacts>> all;
  std::string_view rest = *text;
  do {
    auto facts = std::make_unique<InputFacts>();
    if (!FactsReader(facts.get()).Take(&rest)) {
      return Fail(ExitCode::kInputDamaged, path +
                                               " is damaged, or of another version of proftrace; "
                                               "ingest its input again");
    }
    all.push_back(std::move(facts));
  } while (!rest.empty());
  return all;
}

}  // namespace proftrace
