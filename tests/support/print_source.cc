// Prints what the readers of a merge find in a file, for comparison with other readers of it:
//
//   print_source [--salvage] FILE           one event a line, as JSON; times in nanoseconds
//   print_source [--salvage] --facts FILE   what is known of the process, one fact a line
//   print_source [--salvage] --count FILE   reads all and prints the number of events
#include <algorithm>
#include <cstdio>
#include <string>

#include "userspace/fleet_sources/open_source.h"

namespace proftrace {
namespace {

std::string IdSource(const SourceId& id) {
  if (const auto* number = std::get_if<int64_t>(&id)) return std::to_string(*number);
  return "\"" + std::string(std::get<std::string_view>(id)) + "\"";
}

absl::Status PrintEvent(const SourceEvent& event) {
  std::string line = "{\"ph\":\"" + std::string(1, event.phase) + "\",\"name\":\"";
  line += event.name;
  line += "\",\"cat\":\"";
  line += event.category;
  line += "\",\"pid\":" + IdSource(event.pid) + ",\"tid\":" + IdSource(event.tid);
  if (event.begin_ns) line += ",\"begin_ns\":" + std::to_string(*event.begin_ns);
  line += ",\"duration_ns\":" + std::to_string(event.duration_ns);
  if (event.id) line += ",\"id\":" + IdSource(*event.id);
  if (!event.args.empty()) line += ",\"args\":" + std::string(event.args);
  line += ",\"others\":{" + std::string(event.others) + "}}";
  // Between values JSON may have line ends; in them it has none.
  std::replace(line.begin(), line.end(), '\n', ' ');
  line += '\n';
  std::fputs(line.c_str(), stdout);
  return absl::OkStatus();
}

template <typename T>
void PrintFact(const char* name, const std::optional<T>& value) {
  if (value) std::printf("%s %lld\n", name, static_cast<long long>(*value));
}

void PrintFacts(const SourceFacts& facts) {
  std::printf("kind %d\nclock %d\nhost %s\nevents %llu\nresolution_ns %lld\n",
              static_cast<int>(facts.kind), static_cast<int>(facts.clock), facts.host.c_str(),
              static_cast<unsigned long long>(facts.events),
              static_cast<long long>(facts.resolution_ns));
  PrintFact("pid", facts.pid);
  PrintFact("rank", facts.rank);
  PrintFact("world_size", facts.world_size);
  PrintFact("first_ns", facts.first_ns);
  PrintFact("last_ns", facts.last_ns);
  for (const FleetGroup& group : facts.groups) {
    std::printf("group %s:", group.name.c_str());
    for (const int32_t rank : group.ranks) std::printf(" %d", rank);
    std::printf("\n");
  }
  for (const SourceCall& call : facts.calls) {
    std::printf(
        "call group=%u op=%s kind=%d seq=%lld root=%d src=%d dst=%d bytes=%lld %lld..%lld\n",
        call.call.group, call.op.c_str(), static_cast<int>(call.call.kind),
        static_cast<long long>(call.call.sequence.value_or(-1)), call.call.root, call.call.source,
        call.call.destination, static_cast<long long>(call.call.bytes),
        static_cast<long long>(call.call.entered_ns), static_cast<long long>(call.call.left_ns));
  }
  std::printf("head {%s}\n", facts.head.c_str());
  for (const std::string& remark : facts.remarks) std::printf("remark %s\n", remark.c_str());
}

absl::Status Run(int argc, char** argv) {
  SourceOptions options;
  std::string what;
  std::string path;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--salvage") {
      options.salvage = true;
    } else if (argument.starts_with("--")) {
      what = argument;
    } else {
      path = argument;
    }
  }
  const auto sources = OpenSources(path, options);
  if (!sources.ok()) return sources.status();
  for (const auto& source : *sources) {
    if (what == "--facts") {
      PrintFacts(source->facts());
      continue;
    }
    uint64_t count = 0;
    const absl::Status status = source->ForEachEvent([&](const SourceEvent& event) {
      ++count;
      return what == "--count" ? absl::OkStatus() : PrintEvent(event);
    });
    if (!status.ok()) return status;
    if (what == "--count") std::printf("%llu\n", static_cast<unsigned long long>(count));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace proftrace

int main(int argc, char** argv) {
  const absl::Status status = proftrace::Run(argc, argv);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return 1;
}
