#include "userspace/cli/commands.h"

namespace proftrace {

void AddFleetCommand(CLI::App& app, Action* action) {
  CLI::App* fleet = app.add_subcommand(
      "fleet",
      "Ask questions about many ranks at once: which one is slow, since when, why, and what it "
      "costs the job. Without root, on any machine.\n"
      "Example: proftrace fleet report tables");
  fleet->require_subcommand(1);
  AddFleetIngestCommand(*fleet, action);
  AddFleetAlignCommand(*fleet, action);
  AddFleetReportCommand(*fleet, action);
  AddFleetQueryCommand(*fleet, action);
  AddFleetSqlCommand(*fleet, action);
  AddFleetDiffCommand(*fleet, action);
  AddFleetWatchCommand(*fleet, action);
  AddFleetCompactCommand(*fleet, action);
  fleet->footer("COMMAND [OPTIONS]");  // set last, because the commands would inherit it
}

}  // namespace proftrace
