// Others in the process of the GPU agent: CUPTI itself at its end.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "tests/support/agent_job.h"

namespace proftrace {
namespace {

// CUPTI's own exit functions, which are registered when it is loaded, run before those that were
// registered before.
TEST(AgentOthersTest, TheLastRecordsOfAnExitArriveAlsoWhereTheAgentLoadedCupti) {
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const std::filesystem::path support = here / "../tests/support";
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("proftrace_cupti_" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  std::filesystem::copy(support / "cuda_double/libcuda.so.1", folder / "libcuda.so.1");
  std::filesystem::copy(support / "cuda_double/libcudart.so.12", folder / "libcudart.so.12");
  std::filesystem::copy(support / "cupti_double/12/libcupti.so.12", folder / "libcupti.so.12");
  JobOptions options;
  options.cupti = "";
  setenv("PROFTRACE_CUDA_DOUBLE", folder.c_str(), 1);
  {
    AgentJob job(options);
    unsetenv("PROFTRACE_CUDA_DOUBLE");
    job.StartAndRun();
    job.Do(LaunchKernels, 7);
    EXPECT_EQ(job.AwaitExit(), 0);
    job.Drain();
    EXPECT_EQ(job.Records<abi::pt_gpu_kernel_record>(abi::PT_GPU_KERNEL).size(), 7u);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace proftrace
