// The command line as a whole.
#pragma once

namespace proftrace {

// Runs the command that it asks for. Returns the exit code.
int RunCommandLine(int argc, char** argv);

}  // namespace proftrace
