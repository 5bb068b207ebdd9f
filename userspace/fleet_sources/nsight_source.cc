#include "userspace/fleet_sources/nsight_source.h"

#include <algorithm>
#include <set>
#include <utility>

#include "exporters/sinks/escape.h"
#include "exporters/sinks/json_writer.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/shown_text.h"
#include "userspace/fleet_sources/sqlite_reader.h"

namespace proftrace {
namespace {

// Nsight Systems puts the PID into these bits of globalTid and globalPid, and the TID below them.
constexpr int kPidShift = 24;
constexpr int64_t kPidMask = 0xffffff;

struct NsightArg {
  std::string_view column;
  std::string_view key;  // the key that Kineto has for it
};

// A table of events.
struct NsightTable {
  std::string_view name;
  std::string_view category;
  std::string_view owner;  // the column that tells the process (globalPid for work on a GPU)
  // Columns that may have the name: the first one that exists is used. They hold text, or ids of
  // the table StringIds.
  std::vector<std::string_view> name_columns;
  std::string_view fixed_name;  // the name where no column has one
  std::vector<NsightArg> args;

  bool is_on_device() const { return owner == "globalPid"; }
};

const std::vector<NsightTable>& Tables() {
  static const std::vector<NsightTable>& tables = *new std::vector<NsightTable>{
      {"CUPTI_ACTIVITY_KIND_RUNTIME",
       "cuda_runtime",
       "globalTid",
       {"nameId"},
       "",
       {{"correlationId", "correlation"}, {"returnValue", "return value"}}},
      {"NVTX_EVENTS",
       "user_annotation",
       "globalTid",
       {"text", "textId"},
       "",
       {{"domainId", "domain"}, {"rangeId", "range"}, {"category", "category"}}},
      {"OSRT_API",
       "os_runtime",
       "globalTid",
       {"nameId"},
       "",
       {{"returnValue", "return value"}, {"nestingLevel", "nesting level"}}},
      {"CUPTI_ACTIVITY_KIND_KERNEL",
       "kernel",
       "globalPid",
       {"demangledName", "shortName"},
       "",
       {{"correlationId", "correlation"},
        {"deviceId", "device"},
        {"contextId", "context"},
        {"streamId", "stream"},
        {"registersPerThread", "registers per thread"},
        {"staticSharedMemory", "static shared memory"},
        {"dynamicSharedMemory", "dynamic shared memory"},
        {"gridX", "grid x"},
        {"gridY", "grid y"},
        {"gridZ", "grid z"},
        {"blockX", "block x"},
        {"blockY", "block y"},
        {"blockZ", "block z"},
        {"graphNodeId", "graph node id"}}},
      {"CUPTI_ACTIVITY_KIND_MEMCPY",
       "gpu_memcpy",
       "globalPid",
       {},
       "Memcpy",
       {{"correlationId", "correlation"},
        {"deviceId", "device"},
        {"contextId", "context"},
        {"streamId", "stream"},
        {"bytes", "bytes"},
        {"copyKind", "copy kind"}}},
      {"CUPTI_ACTIVITY_KIND_MEMSET",
       "gpu_memset",
       "globalPid",
       {},
       "Memset",
       {{"correlationId", "correlation"},
        {"deviceId", "device"},
        {"contextId", "context"},
        {"streamId", "stream"},
        {"bytes", "bytes"},
        {"value", "value"}}},
  };
  return tables;
}

std::string PidOf(std::string_view column) {
  return "(" + std::string(column) + " >> " + std::to_string(kPidShift) + ") & " +
         std::to_string(kPidMask);
}

// Returns the name of a value of CUpti_ActivityMemcpyKind, as Kineto writes it.
std::string_view CopyName(int64_t kind) {
  constexpr std::string_view kNames[] = {"Memcpy",      "Memcpy HtoD", "Memcpy DtoH", "Memcpy HtoA",
                                         "Memcpy AtoH", "Memcpy AtoA", "Memcpy AtoD", "Memcpy DtoA",
                                         "Memcpy DtoD", "Memcpy HtoH", "Memcpy PtoP"};
  return kind > 0 && kind < 11 ? kNames[kind] : kNames[0];
}

// The tables that a report has, and the facts that all its processes share.
struct NsightReport {
  struct Part {
    const NsightTable* table;
    std::set<std::string> columns;
  };
  std::string path;
  std::vector<Part> parts;
  bool has_strings = false;
  std::optional<int64_t> session_start_ns;  // begin of the session, since 1970
  std::string host;
  std::set<std::string> columns_of_names;  // columns of the table ThreadNames
};

std::string SchemaOf(const SqliteReader& reader) {
  std::string version;
  if (reader.ColumnsOf("META_DATA_EXPORT").empty()) return version;
  (void)reader.ForEachRow("SELECT value FROM META_DATA_EXPORT WHERE name = 'EXPORT_SCHEMA_VERSION'",
                          [&version](const SqliteRow& row) {
                            version = ShownText(std::string(row.Text(0)));
                            return absl::OkStatus();
                          });
  return version;
}

absl::Status CheckColumns(const SqliteReader& reader, const NsightReport::Part& part,
                          bool has_strings, const std::string& path) {
  std::vector<std::string> wanted = {"start", "end", std::string(part.table->owner)};
  if (part.table->is_on_device()) wanted.insert(wanted.end(), {"deviceId", "streamId"});
  if (!part.table->name_columns.empty()) {
    std::string found;
    for (const std::string_view name : part.table->name_columns) {
      if (found.empty() && part.columns.contains(std::string(name))) found = name;
    }
    if (found.empty()) wanted.emplace_back(part.table->name_columns.front());
  }
  const auto missing = std::find_if(wanted.begin(), wanted.end(), [&part](const std::string& one) {
    return !part.columns.contains(one);
  });
  if (missing == wanted.end() && has_strings) return absl::OkStatus();
  const std::string version = SchemaOf(reader);
  return Fail(
      ExitCode::kInputDamaged,
      path + " is an export of Nsight Systems" +
          (version.empty() ? "" : " of schema version " + version) + " that is not known: " +
          (has_strings ? "its table " + std::string(part.table->name) + " has no column " + *missing
                       : std::string("it has no table StringIds(id, value)")) +
          "; export the report with nsys of the years 2021 to 2026");
}

absl::StatusOr<NsightReport> ReadReport(const SqliteReader& reader, const std::string& path) {
  NsightReport report;
  report.path = path;
  const std::set<std::string> strings = reader.ColumnsOf("StringIds");
  report.has_strings = strings.contains("id") && strings.contains("value");
  for (const NsightTable& table : Tables()) {
    NsightReport::Part part{&table, reader.ColumnsOf(std::string(table.name))};
    if (part.columns.empty()) continue;
    if (absl::Status status = CheckColumns(reader, part, report.has_strings, path); !status.ok()) {
      return status;
    }
    report.parts.push_back(std::move(part));
  }
  if (report.parts.empty()) {
    const std::string version = SchemaOf(reader);
    return Fail(
        ExitCode::kInputDamaged,
        path +
            (version.empty() ? " is no export of Nsight Systems that is known"
                             : " is an export of Nsight Systems of schema version " + version) +
            ": it has no table of kernels, of calls of CUDA, of NVTX or of the OS runtime");
  }
  if (reader.ColumnsOf("TARGET_INFO_SESSION_START_TIME").contains("utcEpochNs")) {
    absl::Status status =
        reader.ForEachRow("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME LIMIT 1",
                          [&report](const SqliteRow& row) {
                            report.session_start_ns = row.Integer(0);
                            return absl::OkStatus();
                          });
    if (!status.ok()) return status;
  }
  const std::set<std::string> system = reader.ColumnsOf("TARGET_INFO_SYSTEM_ENV");
  if (system.contains("name") && system.contains("value")) {
    absl::Status status = reader.ForEachRow(
        "SELECT value FROM TARGET_INFO_SYSTEM_ENV WHERE name = 'Hostname' LIMIT 1",
        [&report](const SqliteRow& row) {
          report.host = row.Text(0);
          return absl::OkStatus();
        });
    if (!status.ok()) return status;
  }
  report.columns_of_names = reader.ColumnsOf("ThreadNames");
  return report;
}

absl::StatusOr<std::set<int64_t>> PidsOf(const SqliteReader& reader, const NsightReport& report) {
  std::set<int64_t> pids;
  for (const NsightReport::Part& part : report.parts) {
    absl::Status status = reader.ForEachRow(
        "SELECT DISTINCT " + PidOf(part.table->owner) + " FROM " + std::string(part.table->name) +
            " WHERE " + std::string(part.table->owner) + " IS NOT NULL",
        [&pids](const SqliteRow& row) {
          if (const auto pid = row.Integer(0)) pids.insert(*pid);
          return absl::OkStatus();
        });
    if (!status.ok()) return status;
  }
  return pids;
}

class NsightSource final : public SourceInput {
 public:
  NsightSource(NsightReport report, int64_t pid) : report_(std::move(report)) {
    facts_.kind = SourceKind::kNsight;
    facts_.path = report_.path;
    facts_.host = report_.host;
    facts_.pid = pid;
    if (!report_.session_start_ns) {
      facts_.clock = SourceClock::kOwn;
      facts_.remarks.emplace_back(
          "it does not tell when its session began (TARGET_INFO_SESSION_START_TIME): its times "
          "count from a moment that is not known");
    }
  }

  absl::Status ReadFacts() {
    absl::Status status = ForEachEvent([this](const SourceEvent& event) {
      ++facts_.events;
      if (!event.begin_ns) return absl::OkStatus();
      const int64_t end_ns = *event.begin_ns + event.duration_ns;
      facts_.first_ns = std::min(facts_.first_ns.value_or(*event.begin_ns), *event.begin_ns);
      facts_.last_ns = std::max(facts_.last_ns.value_or(end_ns), end_ns);
      return absl::OkStatus();
    });
    if (unplaced_ > 0) {
      facts_.remarks.push_back(std::to_string(unplaced_) +
                               " of its rows have no time that can be read: left out");
    }
    return status;
  }

  const SourceFacts& facts() const override { return facts_; }

  absl::Status ForEachEvent(const std::function<absl::Status(const SourceEvent&)>& take) override {
    const absl::StatusOr<SqliteReader> reader = SqliteReader::Open(report_.path);
    if (!reader.ok()) return reader.status();
    unplaced_ = 0;
    if (absl::Status status = ReadThreadNames(*reader, take); !status.ok()) return status;
    for (const NsightReport::Part& part : report_.parts) {
      if (absl::Status status = ReadTable(*reader, part, take); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  using Take = std::function<absl::Status(const SourceEvent&)>;

  absl::Status ReadThreadNames(const SqliteReader& reader, const Take& take) const {
    if (!report_.columns_of_names.contains("globalTid") ||
        !report_.columns_of_names.contains("nameId")) {
      return absl::OkStatus();
    }
    return reader.ForEachRow(
        "SELECT globalTid, (SELECT value FROM StringIds WHERE id = nameId) FROM ThreadNames "
        "WHERE " +
            PidOf("globalTid") + " = " + std::to_string(*facts_.pid),
        [&](const SqliteRow& row) {
          SourceEvent event;
          event.phase = 'M';
          event.name = "thread_name";
          event.pid = *facts_.pid;
          event.tid = row.Integer(0).value_or(0) & kPidMask;
          JsonText json{StringText()};
          json.BeginObject(JsonSpacing::kTight);
          json.Key("name").String(row.Text(1));
          json.EndObject();
          const std::string args = json.Done().Take();
          event.args = args;
          return take(event);
        });
  }

  // Reads a table of events. The query's columns are start, end, owner, device, stream, the name,
  // then the args that the table has.
  absl::Status ReadTable(const SqliteReader& reader, const NsightReport::Part& part,
                         const Take& take) {
    const NsightTable& table = *part.table;
    std::string query = "SELECT start, \"end\", " + std::string(table.owner);
    query += table.is_on_device() ? ", deviceId, streamId, " : ", NULL, NULL, ";
    query += NameExpression(part);
    std::vector<NsightArg> args;
    for (const NsightArg& arg : table.args) {
      if (!part.columns.contains(std::string(arg.column))) continue;
      args.push_back(arg);
      query += ", " + std::string(arg.column);
    }
    query += " FROM " + std::string(table.name) + " WHERE " + PidOf(table.owner) + " = " +
             std::to_string(*facts_.pid);
    return reader.ForEachRow(query,
                             [&](const SqliteRow& row) { return TakeRow(table, args, row, take); });
  }

  static std::string NameExpression(const NsightReport::Part& part) {
    std::string expression;
    for (const std::string_view column : part.table->name_columns) {
      if (!part.columns.contains(std::string(column))) continue;
      const std::string name(column);
      if (!expression.empty()) expression += ", ";
      expression += name == "text" ? name : "(SELECT value FROM StringIds WHERE id = " + name + ")";
    }
    return expression.empty() ? "NULL" : "COALESCE(" + expression + ", NULL)";
  }

  absl::Status TakeRow(const NsightTable& table, const std::vector<NsightArg>& args,
                       const SqliteRow& row, const Take& take) {
    const std::optional<int64_t> start = row.Integer(0);
    const std::optional<int64_t> end = row.Integer(1);
    SourceEvent event;
    int64_t begin_ns = 0;
    int64_t end_ns = 0;
    const int64_t base_ns = report_.session_start_ns.value_or(0);
    if (!start || __builtin_add_overflow(*start, base_ns, &begin_ns) ||
        __builtin_add_overflow(end.value_or(*start), base_ns, &end_ns)) {
      ++unplaced_;
      return absl::OkStatus();
    }
    event.begin_ns = begin_ns;
    event.duration_ns = std::max<int64_t>(end_ns - begin_ns, 0);
    event.phase = end ? 'X' : 'i';  // without an end the event is a mark
    event.category = table.category;
    event.pid = table.is_on_device() ? row.Integer(3).value_or(0) : *facts_.pid;
    event.tid =
        table.is_on_device() ? row.Integer(4).value_or(0) : row.Integer(2).value_or(0) & kPidMask;
    std::string name = JsonEscaped(row.Text(5));
    if (name.empty()) name = table.fixed_name;
    JsonText json{StringText()};
    json.BeginObject(JsonSpacing::kTight);
    for (size_t i = 0; i < args.size(); ++i) {
      const std::optional<int64_t> value = row.Integer(static_cast<int>(6 + i));
      if (!value) continue;
      if (args[i].column == "copyKind") name = CopyName(*value);
      json.Key(args[i].key).Integer(*value);
    }
    json.EndObject();
    const std::string text = json.Done().Take();
    event.name = name;
    event.args = text;
    return take(event);
  }

  NsightReport report_;
  SourceFacts facts_;
  uint64_t unplaced_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<SourceInput>>> OpenNsightSources(
    const std::string& path) {
  const absl::StatusOr<SqliteReader> reader = SqliteReader::Open(path);
  if (!reader.ok()) return reader.status();
  absl::StatusOr<NsightReport> report = ReadReport(*reader, path);
  if (!report.ok()) return report.status();
  const absl::StatusOr<std::set<int64_t>> pids = PidsOf(*reader, *report);
  if (!pids.ok()) return pids.status();
  if (pids->empty()) {
    return Fail(ExitCode::kInputDamaged, path + " has no row of any process; nothing was recorded");
  }
  std::vector<std::unique_ptr<SourceInput>> sources;
  for (const int64_t pid : *pids) {
    auto source = std::make_unique<NsightSource>(*report, pid);
    if (absl::Status status = source->ReadFacts(); !status.ok()) return status;
    sources.push_back(std::move(source));
  }
  return sources;
}

}  // namespace proftrace
