// Runs proftrace's command line.
#pragma once

namespace proftrace {

// Runs the command that the arguments ask for. Returns the exit code.
int RunCommandLine(int argc, char** argv);

}  // namespace proftrace
