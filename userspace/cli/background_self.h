// Starts this program a second time, in the background, for work that must not disturb the
// recording.
#pragma once

#include <sys/types.h>

#include <array>
#include <string>
#include <vector>

namespace proftrace {

// The numbers that the two descriptors have in the started program.
constexpr std::array<int, 2> kBackgroundDescriptors = {3, 4};

// Starts this program with `arguments` (without its own name) and the two open `descriptors`.
// `niceness`: the priority for setpriority(2). The program gets /dev/null as standard input and
// output, and its own process group, because ^C is meant for the recording. Returns its PID, or -1
// with errno.
pid_t StartSelfInBackground(std::vector<std::string> arguments,
                            const std::array<int, 2>& descriptors, int niceness);

// Returns kBackgroundDescriptors as an option's value: "3,4".
std::string BackgroundDescriptorsText();

}  // namespace proftrace
