// Capabilities and limits that a process has no use for.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

namespace proftrace {

// Lets neither a program with the set-user-ID bit nor anything else give this process a right that
// it does not have.
bool NoNewRights();

// Gives up all capabilities but `kept` (CAP_…) for good.
bool DropCapabilities(std::initializer_list<int> kept);

// Does so but for root's right to read everybody's files, which nobody else has.
bool KeepRightToRead();

// Makes the capabilities effective that recording needs and that are permitted (a file with
// `setcap …+p`). The ones that let a process write the files of others are not among them.
void RaiseCapabilities();

// Whether this process has the capability (CAP_…) now.
bool HasCapability(int capability);

// Says what gives the rights that eBPF needs and that this process has not: "run 'sudo
// /usr/bin/proftrace', or give it CAP_BPF …"; for root in a container, what its start needs.
std::string HowToGetRights();

// Allows no core file, no more than that much processor time from here on, and no more memory than
// the machine has, beside what is mapped already.
void LimitUse(int64_t cpu_s);

}  // namespace proftrace
