#include "userspace/fleet_tables/align.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "exporters/parquet/parquet_table.h"
#include "exporters/sinks/escape.h"
#include "userspace/base/dumped_json.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/shown_text.h"
#include "userspace/fleet_tables/input_series.h"
#include "userspace/fleet_tables/job_alignment.h"

namespace proftrace {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kAligned[] = "aligned";
constexpr char kStatement[] = "aligned/alignment.json";
constexpr int kAlignmentVersion = 1;

// A table of all jobs. Its file gets its name when Publish() is called, together with the other
// tables.
template <typename Row>
class AlignedTable {
 public:
  absl::Status Open(const FleetDirectory& directory, const std::string& name) {
    absl::StatusOr<std::unique_ptr<ByteSink>> sink =
        directory.Create(absl::StrCat(kAligned, "/", name, ".parquet"));
    if (!sink.ok()) return sink.status();
    sink_ = *std::move(sink);
    table_.emplace(*sink_);
    return absl::OkStatus();
  }
  void Add(const RowKeys& keys, const Row& row) {
    ++rows_;
    (void)table_->Add({&row, keys});
  }
  // Writes the last row; Publish() gives the file its name.
  absl::Status Finish() { return table_->Finish(); }
  absl::Status Publish() { return sink_->Finish(); }
  uint64_t rows() const { return rows_; }

 private:
  std::unique_ptr<ByteSink> sink_;
  std::optional<ParquetTable<KeyedRow<Row, /*kWithInput=*/true>>> table_;
  uint64_t rows_ = 0;
};

class Aligner {
 public:
  Aligner(const FleetDirectory& directory, const MergedClockOptions& options)
      : directory_(directory), options_(options) {}

  absl::StatusOr<Alignment> Run() {
    const absl::StatusOr<std::optional<FleetDirectory::Lock>> lock =
        directory_.TryLock(FleetDirectory::kAlignedLock, /*waits=*/true);
    if (!lock.ok()) return lock.status();
    for (const absl::Status& status : {Load(), OpenTables()}) {
      if (!status.ok()) return status;
    }
    for (const auto& [job, inputs] : ByJob()) AlignJob(job, inputs);
    if (absl::Status status = Publish(); !status.ok()) return status;
    return std::move(out_);
  }

 private:
  absl::Status Load() {
    absl::StatusOr<std::vector<InputRecord>> missing = directory_.Recover();
    if (!missing.ok()) return missing.status();
    out_.missing = *std::move(missing);
    const auto records = directory_.Inputs();
    if (!records.ok()) return records.status();
    for (const auto& [name, record] : *records) LoadInput(record);
    inputs_ = JoinSeries(std::move(inputs_));
    if (inputs_.empty()) {
      return Fail(ExitCode::kUsage,
                  ShownText(directory_.path()) +
                      " has no input; add some with 'proftrace fleet ingest INPUT... -o " +
                      ShownText(directory_.path()) + "'");
    }
    return absl::OkStatus();
  }

  void LoadInput(const InputRecord& record) {
    std::vector<std::unique_ptr<InputFacts>> parts;
    for (const std::string& id : record.parts) {
      auto facts = ReadInputFacts(directory_.path() + "/" + directory_.FactsPath(id));
      if (!facts.ok()) {
        out_.missing.push_back(record);
        out_.missing.back().failure = std::string(facts.status().message());
        return;
      }
      for (auto& one : *facts) parts.push_back(std::move(one));
    }
    names_.push_back(record.name);
    ++out_.inputs;
    for (auto& part : parts) inputs_.push_back(std::move(part));
  }

  // Groups the inputs by job. Inputs that do not tell their job belong to the job of the others, if
  // there is only one.
  std::map<std::string, std::vector<const InputFacts*>> ByJob() const {
    std::map<std::string, std::vector<const InputFacts*>> jobs;
    for (const auto& input : inputs_) jobs[input->source.job].push_back(input.get());
    const auto unknown = jobs.find("");
    if (jobs.size() != 2 || unknown == jobs.end()) return jobs;
    std::vector<const InputFacts*> inputs = std::move(unknown->second);
    jobs.erase(unknown);
    auto& all = jobs.begin()->second;
    all.insert(all.end(), inputs.begin(), inputs.end());
    return jobs;
  }

  absl::Status OpenTables() {
    for (const absl::Status& status :
         {captures_.Open(directory_, "captures"), clocks_.Open(directory_, "clocks"),
          steps_.Open(directory_, "steps"), collectives_.Open(directory_, "collectives")}) {
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  void AlignJob(const std::string& name, const std::vector<const InputFacts*>& inputs) {
    AlignedJob job;
    job.job = name;
    auto aligned = JobAlignment::Make(name, inputs, options_);
    if (!aligned.ok()) {
      job.problem = std::string(aligned.status().message());
      MergedClockOptions by_wall = options_;
      by_wall.mode = ClockMode::kRealtime;
      aligned = JobAlignment::Make(name, inputs, by_wall);
      job.is_left_out = !aligned.ok();
    }
    if (!job.is_left_out) Write(**aligned, &job);
    out_.jobs.push_back(std::move(job));
  }

  void Write(const JobAlignment& aligned, AlignedJob* job) {
    std::set<int32_t> ranks;
    for (const JoinedProcess& process : aligned.joined().processes) {
      if (process.rank) ranks.insert(*process.rank);
    }
    job->ranks = ranks.size();
    job->world_size = aligned.joined().world_size;
    job->clock = aligned.clock().statement();
    job->remarks = aligned.joined().remarks;
    if (!aligned.joined().missing_ranks.empty()) {
      job->remarks.push_back(
          absl::StrCat("No input is of rank ", RankList(aligned.joined().missing_ranks), "."));
    }
    aligned.ForEachCapture(
        [this](const RowKeys& keys, const FleetCaptureRow& row) { captures_.Add(keys, row); });
    aligned.ForEachKnot(
        [this](const RowKeys& keys, const ClockKnotRow& row) { clocks_.Add(keys, row); });
    aligned.ForEachStep(
        [this](const RowKeys& keys, const AlignedStepRow& row) { steps_.Add(keys, row); });
    aligned.ForEachCall([this](const RowKeys& keys, const AlignedCallRow& row) {
      if (row.match == "none") ++out_.unmatched;
      collectives_.Add(keys, row);
    });
  }

  // Gives the tables their names. Tables without the statement file count as no alignment, so that
  // the statement is removed first and written last.
  absl::Status Publish() {
    out_.steps = steps_.rows();
    out_.collectives = collectives_.rows();
    for (const absl::Status& status :
         {captures_.Finish(), clocks_.Finish(), steps_.Finish(), collectives_.Finish()}) {
      if (!status.ok()) return status;
    }
    absl::StatusOr<std::unique_ptr<ByteSink>> sink = directory_.Create(kStatement);
    if (!sink.ok()) return sink.status();
    Json statement = Json::parse(out_.ToJson());
    statement["version"] = kAlignmentVersion;
    statement["of_inputs"] = names_;
    absl::Status status = (*sink)->Write(DumpedJson(statement, 1) + "\n");
    if (!status.ok()) return status;
    directory_.RemoveFile(kStatement);
    if (status = captures_.Publish(); !status.ok()) return status;
    if (status = clocks_.Publish(); !status.ok()) return status;
    if (status = steps_.Publish(); !status.ok()) return status;
    if (status = collectives_.Publish(); !status.ok()) return status;
    return (*sink)->Finish();
  }

  const FleetDirectory& directory_;
  const MergedClockOptions& options_;
  std::vector<std::unique_ptr<InputFacts>> inputs_;
  std::vector<std::string> names_;
  AlignedTable<FleetCaptureRow> captures_;
  AlignedTable<ClockKnotRow> clocks_;
  AlignedTable<AlignedStepRow> steps_;
  AlignedTable<AlignedCallRow> collectives_;
  Alignment out_;
};

Json JobJson(const AlignedJob& job) {
  const ClockStatement& clock = job.clock;
  Json json = {{"job", ToValidUtf8(job.job)}, {"ranks", job.ranks}};
  if (job.world_size) json["world_size"] = *job.world_size;
  if (!job.problem.empty()) json["problem"] = ToValidUtf8(job.problem);
  json["is_left_out"] = job.is_left_out;
  if (!job.is_left_out) {
    json["clock"] = {{"line", ToValidUtf8(clock.Line())},
                     {"mode", std::string(NameOf(clock.mode))},
                     {"hosts", clock.hosts},
                     {"reference", ToValidUtf8(clock.reference)},
                     {"collectives", clock.collectives},
                     {"matched_by_order", clock.matched_by_order}};
    Json& of = json["clock"];
    if (clock.bound_ns) of["bound_ns"] = *clock.bound_ns;
    if (clock.worst_bound_ns) of["worst_bound_ns"] = *clock.worst_bound_ns;
    if (clock.likely_error_ns) of["estimate_error_ns"] = *clock.likely_error_ns;
    for (const auto& [key, texts] :
         {std::pair("not_aligned", &clock.not_aligned), std::pair("findings", &clock.findings)}) {
      of[key] = Json::array();
      for (const std::string& text : *texts) of[key].push_back(ToValidUtf8(text));
    }
  }
  json["remarks"] = Json::array();
  for (const std::string& remark : job.remarks) json["remarks"].push_back(ToValidUtf8(remark));
  return json;
}

}  // namespace

std::string Alignment::ToJson() const {
  Json json = {{"inputs", inputs},           {"steps", steps},
               {"collectives", collectives}, {"unmatched_collectives", unmatched},
               {"jobs", Json::array()},      {"missing", Json::array()}};
  for (const AlignedJob& job : jobs) json["jobs"].push_back(JobJson(job));
  for (const InputRecord& record : missing) {
    json["missing"].push_back(
        {{"path", ToValidUtf8(record.stamp.path)}, {"why", ToValidUtf8(record.failure)}});
  }
  return DumpedJson(json);
}

absl::StatusOr<Alignment> AlignFleet(const FleetDirectory& directory,
                                     const MergedClockOptions& options) {
  return Aligner(directory, options).Run();
}

absl::StatusOr<bool> IsAlignmentCurrent(const FleetDirectory& directory) {
  std::ifstream file(directory.path() + "/" + kStatement, std::ios::binary);
  if (!file) return false;
  const Json json = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  // Gives a null value where a damaged statement lacks the member, so that no comparison throws.
  const auto field = [&json](const char* name) {
    return json.is_object() && json.contains(name) ? json.at(name) : Json();
  };
  if (field("version") != kAlignmentVersion) return false;
  const auto inputs = directory.Inputs();
  if (!inputs.ok()) return inputs.status();
  Json names = Json::array();
  for (const auto& [name, record] : *inputs) names.push_back(name);
  return field("of_inputs") == names;
}

}  // namespace proftrace
