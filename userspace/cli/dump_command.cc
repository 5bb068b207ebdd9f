#include <memory>
#include <vector>

#include "userspace/base/exit_status.h"
#include "userspace/cli/commands.h"
#include "userspace/cli/dump_text.h"
#include "userspace/cli/job_dump.h"
#include "userspace/cli/json_schema.h"
#include "userspace/cli/parse.h"
#include "userspace/cli/process_dump.h"

namespace proftrace {
namespace {

struct DumpOptions {
  std::vector<uint32_t> pids;
  bool all = false;
  bool json = false;
};

absl::Status RunDump(const DumpOptions& options) {
  if (options.all != options.pids.empty()) {
    return Fail(ExitCode::kUsage,
                "give what to dump: -p PID of a running process (once or several times), or -a for "
                "every PyTorch process");
  }
  if (options.all || options.pids.size() > 1) return DumpJob(options.pids, options.json);
  const Pid pid{options.pids.front()};
  return options.json ? DumpOneAsJson(pid) : DumpProcess(pid, PrintDump);
}

}  // namespace

void AddDumpCommand(CLI::App& app, Action* action) {
  auto options = std::make_shared<DumpOptions>();
  CLI::App* dump = app.add_subcommand(
      "dump",
      "Show the Python stack of each thread of a process once, innermost frame first, and what it "
      "waits for. Of several processes, equal stacks are shown once, with their ranks, the odd "
      "ones first. A process is stopped for some milliseconds; how long is printed.\n"
      "Example: sudo proftrace dump -p 4711\n"
      "Example: sudo proftrace dump -a");
  dump->add_option("-p,--pid", options->pids, "looks at this process")
      ->type_name("PID")
      ->check(WhyNoPid);
  dump->add_flag("-a,--all-processes", options->all,
                 "looks at all PyTorch processes of this host that this user may look at");
  dump->add_flag("--json", options->json, "prints one JSON document");
  AddJsonSchema(dump);
  dump->callback([options, action] { *action = [options] { return RunDump(*options); }; });
}

}  // namespace proftrace
