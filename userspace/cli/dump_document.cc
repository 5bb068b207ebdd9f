#include "userspace/cli/dump_document.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "userspace/base/exit_status.h"
#include "userspace/base/text.h"
#include "userspace/cli/dump_text.h"

namespace proftrace {
namespace {

using Json = nlohmann::json;

// The key that marks a document. It comes first in alphabetical order.
constexpr std::string_view kDumpKey = "dump";
constexpr uint32_t kDumpSchemaVersion = 1;

template <typename T>
Json OrNone(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json CollectiveJson(const std::optional<EnteredCollective>& collective) {
  if (!collective) return {};
  return {{"name", collective->name},
          {"file", collective->file.empty() ? Json() : Json(collective->file)},
          {"line", OrNone(collective->line)}};
}

Json BegunJson(const std::vector<BegunCollectives>& all) {
  Json begun = Json::array();
  for (const BegunCollectives& one : all) {
    begun.push_back({{"group", one.group.name},
                     {"description", one.group.description},
                     {"backend", one.group.backend},
                     {"rank", one.group.rank},
                     {"size", one.group.size},
                     {"ranks", one.group.ranks},
                     {"count", one.count}});
  }
  return begun;
}

Json ProcessesJson(const JobDumps& all) {
  Json processes = Json::array();
  for (const RankDump& one : all.dumps) {
    Json process = DumpJson(one.dump);
    process["host"] = one.host;
    process["rank"] = OrNone(one.rank);
    process["world_size"] = OrNone(one.world_size);
    process["local_world_size"] = OrNone(one.local_world_size);
    process["parent"] = Raw(one.parent);
    process["job"] = one.job;
    process["begun"] = BegunJson(one.begun);
    processes.push_back(std::move(process));
  }
  return processes;
}

Json GroupsJson(const JobDumps& all, const std::vector<DumpGroup>& groups) {
  Json folded = Json::array();
  for (const DumpGroup& group : groups) {
    Json pids = Json::array();
    Json hosts = Json::array();
    for (const size_t member : group.members) {
      pids.push_back(Raw(all.dumps[member].dump.pid));
      hosts.push_back(all.dumps[member].host);
    }
    const DumpedStack* const stack = MainStack(all.dumps[group.members.front()].dump);
    folded.push_back({{"job", group.job},
                      {"ranks", RanksIn(all.dumps, group)},
                      {"pids", pids},
                      {"hosts", hosts},
                      {"helpers", !group.is_of_ranks},
                      {"collective", CollectiveJson(group.collective)},
                      {"stack", stack == nullptr ? Json() : StackJson(*stack)}});
  }
  return folded;
}

Json MissingJson(const std::vector<MissingRanks>& missing) {
  Json all = Json::array();
  for (const MissingRanks& one : missing) {
    all.push_back({{"job", one.job},
                   {"collective", CollectiveJson(one.collective)},
                   {"waiting", one.waiting},
                   {"missing", one.missing},
                   {"without_process", one.absent},
                   {"not_dumped", one.not_dumped}});
  }
  return all;
}

Json UnevenJson(const std::vector<UnevenGroup>& groups) {
  Json uneven = Json::array();
  for (const UnevenGroup& one : groups) {
    Json begun = Json::array();
    for (const auto& [count, ranks] : one.ranks) {
      begun.push_back({{"count", count}, {"ranks", ranks}});
    }
    uneven.push_back({{"job", one.job},
                      {"group", one.group.name},
                      {"description", one.group.description},
                      {"backend", one.group.backend},
                      {"size", one.group.size},
                      {"begun", begun},
                      {"not_known", one.unseen}});
  }
  return uneven;
}

// Takes values out of a JSON object, and notes whether all of them had the right type.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object), ok_(object.is_object()) {}
  bool ok() const { return ok_; }

  void Take(const char* key, std::string* text) {
    const Json* const value = Find(key);
    if (value == nullptr || value->is_null()) return;
    if (value->is_string()) {
      *text = value->get<std::string>();
    } else {
      ok_ = false;
    }
  }
  void Take(const char* key, bool* flag) {
    const Json* const value = Find(key);
    if (value != nullptr && value->is_boolean()) {
      *flag = value->get<bool>();
    } else {
      ok_ = false;
    }
  }
  template <typename T>
  void Take(const char* key, T* number) {
    const Json* const value = Find(key);
    const std::optional<T> read = value == nullptr ? std::nullopt : NumberIn<T>(*value);
    if (read) {
      *number = *read;
    } else {
      ok_ = false;
    }
  }
  template <typename T>
  void Take(const char* key, std::optional<T>* number) {
    const Json* const value = Find(key);
    if (value == nullptr || value->is_null()) return;
    *number = NumberIn<T>(*value);
    ok_ &= number->has_value();
  }
  void Take(const char* key, std::vector<int>* numbers) {
    ForEach(key, [&](const Json& value) {
      const std::optional<int> number = NumberIn<int>(value);
      if (number) numbers->push_back(*number);
      return number.has_value();
    });
  }
  // Calls `take` for each item of a list; `take` returns whether the item is valid.
  void ForEach(const char* key, const std::function<bool(const Json&)>& take) {
    const Json* const list = Find(key);
    ok_ &= list != nullptr && list->is_array();
    for (size_t i = 0; ok_ && i < list->size(); ++i) ok_ = take((*list)[i]);
  }
  const Json* Find(std::string_view key) const {
    if (!object_.is_object()) return nullptr;
    const auto at = object_.find(std::string(key));
    return at == object_.end() ? nullptr : &*at;
  }

 private:
  template <typename T>
  static std::optional<T> NumberIn(const Json& value) {
    if (value.is_number_unsigned()) {
      const uint64_t number = value.get<uint64_t>();
      if (!std::in_range<T>(number)) return std::nullopt;
      return static_cast<T>(number);
    }
    if (!value.is_number_integer() || !std::in_range<T>(value.get<int64_t>())) return std::nullopt;
    return static_cast<T>(value.get<int64_t>());
  }

  const Json& object_;
  bool ok_;
};

bool TakeFrame(const Json& value, DumpedFrame* frame) {
  Fields fields(value);
  fields.Take("file", &frame->file);
  fields.Take("name", &frame->name);
  fields.Take("qualified_name", &frame->qualified_name);
  fields.Take("first_line", &frame->first_line);
  fields.Take("line", &frame->line);
  return fields.ok();
}

bool TakeStack(const Json& value, DumpedStack* stack) {
  Fields fields(value);
  fields.Take("interpreter", &stack->interpreter);
  fields.Take("thread_name", &stack->thread_name);
  std::string gil;
  fields.Take("gil", &gil);
  stack->has_gil = gil == "held";
  stack->waits_for_gil = gil == "awaited";
  fields.Take("cut", &stack->is_cut);
  fields.Take("failed", &stack->failed);
  fields.ForEach(
      "frames", [&](const Json& frame) { return TakeFrame(frame, &stack->frames.emplace_back()); });
  return fields.ok();
}

bool TakeThread(const Json& value, DumpedThread* thread) {
  Fields fields(value);
  std::optional<uint32_t> tid;
  fields.Take("tid", &tid);
  thread->tid = tid.value_or(0);
  fields.Take("comm", &thread->comm);
  std::string state;
  fields.Take("state", &state);
  for (const ThreadState known :
       {ThreadState::kWaits, ThreadState::kStopped, ThreadState::kInPageFault}) {
    if (state == ThreadStateName(known)) thread->state = known;
  }
  fields.Take("system_call", &thread->system_call);
  fields.Take("file", &thread->file);
  fields.Take("kernel_function", &thread->kernel_function);
  fields.ForEach("stacks", [&](const Json& stack) {
    return TakeStack(stack, &thread->stacks.emplace_back());
  });
  return fields.ok();
}

bool TakeBegun(const Json& value, BegunCollectives* begun) {
  Fields fields(value);
  fields.Take("group", &begun->group.name);
  fields.Take("description", &begun->group.description);
  fields.Take("backend", &begun->group.backend);
  fields.Take("rank", &begun->group.rank);
  fields.Take("size", &begun->group.size);
  fields.Take("ranks", &begun->group.ranks);
  fields.Take("count", &begun->count);
  return fields.ok();
}

bool TakeProcess(const Json& value, size_t hosts, RankDump* one) {
  Fields fields(value);
  ProcessDump& dump = one->dump;
  uint32_t pid = 0;
  uint32_t parent = 0;
  fields.Take("host", &one->host);
  fields.Take("pid", &pid);
  fields.Take("parent", &parent);
  dump.pid = Pid{pid};
  one->parent = Pid{parent};
  fields.Take("comm", &dump.comm);
  fields.Take("python_version", &dump.python_version);
  fields.Take("interpreters", &dump.interpreters);
  const Json* const stopped = fields.Find("stopped_ms");
  if (stopped != nullptr && stopped->is_number()) {
    const double ns = stopped->get<double>() * 1e6;
    if (!(ns >= 0 && ns < 1e18)) return false;
    dump.stopped_ns = static_cast<int64_t>(ns);
  }
  fields.Take("not_stopped", &dump.not_stopped);
  fields.Take("was_stopped", &dump.was_stopped);
  fields.Take("standstill", &dump.standstill);
  fields.Take("whole", &dump.is_whole);
  fields.Take("rank", &one->rank);
  fields.Take("world_size", &one->world_size);
  fields.Take("local_world_size", &one->local_world_size);
  fields.Take("job", &one->job);
  fields.ForEach("threads", [&](const Json& thread) {
    return TakeThread(thread, &dump.threads.emplace_back());
  });
  fields.ForEach("begun",
                 [&](const Json& begun) { return TakeBegun(begun, &one->begun.emplace_back()); });
  const bool has_rank = !one->rank || *one->rank >= 0;
  return fields.ok() && one->host < hosts && pid != 0 && has_rank;
}

bool TakeHost(const Json& value, DumpHost* host) {
  Fields fields(value);
  fields.Take("name", &host->name);
  fields.Take("boot_id", &host->boot_id);
  fields.Take("pid_namespace", &host->pid_namespace);
  fields.Take("begin_unix_ns", &host->begin_unix_ns);
  fields.Take("end_unix_ns", &host->end_unix_ns);
  fields.Take("all_processes", &host->is_whole);
  return fields.ok();
}

bool TakeFailed(const Json& value, size_t hosts, NotDumped* failed) {
  Fields fields(value);
  uint32_t pid = 0;
  fields.Take("host", &failed->host);
  fields.Take("pid", &pid);
  failed->pid = Pid{pid};
  fields.Take("comm", &failed->comm);
  fields.Take("why", &failed->why);
  return fields.ok() && failed->host < hosts;
}

// The deepest nesting. A deeper document is refused, because copying it would overflow the stack.
constexpr int kMostLevels = 32;

bool IsNestedTooDeep(std::string_view text) {
  int level = 0;
  bool is_in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_in_string) {
      if (c == '\\') ++i;
      is_in_string = c != '"';
    } else if (c == '"') {
      is_in_string = true;
    } else if (c == '[' || c == '{') {
      if (++level > kMostLevels) return true;
    } else if (c == ']' || c == '}') {
      --level;
    }
  }
  return false;
}

absl::Status DamagedDump(const std::string& path, const std::string& why) {
  return Fail(ExitCode::kInputDamaged, path + " is a damaged dump: " + why +
                                           "; take it again with 'proftrace dump -a --json'");
}

Json DumpHeadJson(const std::vector<DumpHost>& hosts) {
  Json list = Json::array();
  for (const DumpHost& host : hosts) {
    list.push_back({{"name", host.name},
                    {"boot_id", host.boot_id},
                    {"pid_namespace", host.pid_namespace},
                    {"begin_unix_ns", host.begin_unix_ns},
                    {"end_unix_ns", host.end_unix_ns},
                    {"all_processes", host.is_whole}});
  }
  return {{"schema_version", kDumpSchemaVersion}, {"hosts", list}};
}

}  // namespace

Json JobJson(const JobDumps& all) {
  const std::vector<DumpGroup> groups = FoldDumps(all.dumps);
  Json failed = Json::array();
  for (const NotDumped& one : all.failed) {
    failed.push_back(
        {{"host", one.host}, {"pid", Raw(one.pid)}, {"comm", one.comm}, {"why", one.why}});
  }
  return {{std::string(kDumpKey), DumpHeadJson(all.hosts)},
          {"missing", MissingJson(FindMissingRanks(all.dumps, groups, all.scope()))},
          {"uneven_groups", UnevenJson(FindUnevenGroups(all.dumps, all.scope()))},
          {"groups", GroupsJson(all, groups)},
          {"processes", ProcessesJson(all)},
          {"failed", failed}};
}

Json ProcessJson(const JobDumps& one) {
  Json json = JobJson(one);
  json.update(DumpJson(one.dumps.front().dump));
  return json;
}

bool IsDumpDocument(std::string_view text) {
  const auto take = [&text](std::string_view expected) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    return ConsumeText(&text, expected);
  };
  if (!take("{")) return false;
  // The sorted document of a single process begins with the process's name ("comm").
  if (take("\"comm\"")) {
    if (!take(":") || !take("\"")) return false;
    while (!text.empty() && text.front() != '"') {
      text.remove_prefix(std::min<size_t>(text.front() == '\\' ? 2 : 1, text.size()));
    }
    if (!take("\"") || !take(",")) return false;
  }
  return take("\"" + std::string(kDumpKey) + "\"");
}

absl::StatusOr<JobDumps> ReadDumpDocument(std::string_view text, const std::string& path) {
  if (IsNestedTooDeep(text)) return DamagedDump(path, "it is nested too deep");
  const Json document = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded()) {
    return DamagedDump(path, "it is no whole JSON document");
  }
  Fields fields(document);
  const Json* const found = fields.Find(kDumpKey);
  const Json head = found == nullptr ? Json() : *found;
  Fields of_head(head);
  uint32_t version = 0;
  of_head.Take("schema_version", &version);
  if (!of_head.ok()) return DamagedDump(path, "it does not tell its version");
  if (version != kDumpSchemaVersion) {
    return Fail(ExitCode::kInputDamaged,
                path + " is a dump of version " + std::to_string(version) +
                    ", which this proftrace does not know; use a newer one");
  }
  JobDumps all;
  of_head.ForEach("hosts",
                  [&](const Json& host) { return TakeHost(host, &all.hosts.emplace_back()); });
  if (!of_head.ok() || all.hosts.empty()) return DamagedDump(path, "its host is not told");
  fields.ForEach("processes", [&](const Json& process) {
    return TakeProcess(process, all.hosts.size(), &all.dumps.emplace_back());
  });
  if (!fields.ok()) {
    return DamagedDump(path, "its process " + std::to_string(all.dumps.size()) + " is none");
  }
  fields.ForEach("failed", [&](const Json& failed) {
    return TakeFailed(failed, all.hosts.size(), &all.failed.emplace_back());
  });
  if (!fields.ok() || all.dumps.empty()) return DamagedDump(path, "it holds no process");
  return all;
}

}  // namespace proftrace
