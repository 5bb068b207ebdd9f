// Takes from a process the capabilities and resources that it has no use for.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

namespace proftrace {

// Makes sure that this process never gains a right that it does not have, not even by a program
// with the set-user-ID bit (PR_SET_NO_NEW_PRIVS). False: the kernel refuses.
bool NoNewRights();

// Gives up all capabilities but `kept` (CAP_…) for good.
bool DropCapabilities(std::initializer_list<int> kept);

// Gives up all capabilities for good, but for root's right to read everybody's files
// (CAP_DAC_READ_SEARCH).
bool KeepRightToRead();

// Makes those capabilities effective that recording needs and that the process has as permitted
// ones (from a program file with `setcap …+p`). Capabilities to write other users' files are not
// among them.
void RaiseCapabilities();

// Whether this process has the capability (CAP_…) now.
bool HasCapability(int capability);

// Says how the user can get the rights that eBPF needs and that this process lacks: "run 'sudo
// /usr/bin/proftrace', or give it CAP_BPF …". For root in a container, says which options the
// container must be started with. If no capability is missing, says what else may be in the way.
std::string HowToGetRights();

// Sets limits for this process: no core file, `cpu_s` seconds of processor time from here on, and
// as much new memory as the machine has (1 GiB at the least), beside the memory that is mapped
// already.
void LimitUse(int64_t cpu_s);

}  // namespace proftrace
