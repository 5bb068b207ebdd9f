// Lets BPF programs see the process ids that this process sees.
#pragma once

#include <absl/status/status.h>

namespace proftrace {

// Tells the programs of a BPF object which PID namespace this process is in. `program` is the
// descriptor of the object's program read_pidns_level (bpf/shared/pid_namespace.bpf.h). Kernels
// before 5.10 cannot run the program on demand: there the initial namespace is taken, and others
// are refused (kHostUnfit).
absl::Status FindPidNamespace(int program);

}  // namespace proftrace
