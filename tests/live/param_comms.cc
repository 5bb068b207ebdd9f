// Makes rows record_param_comms as ProcessGroupNCCL makes them: gloo has none, and without a GPU
// there are no others. Built by collectives_test.py against the headers of the torch that the test
// runs with; the job calls it by ctypes.
#include <ATen/ops/zeros.h>
#include <torch/csrc/distributed/c10d/ParamCommsUtils.hpp>

#include <string>
#include <tuple>
#include <vector>

extern "C" void tensors_row(int64_t number, int is_p2p, const char* group, const char* description,
                            int rank, int size, const char* collective, int64_t elements,
                            int64_t outputs, int first, int stride) {
  std::vector<at::Tensor> tensors = {at::zeros({elements})};
  RECORD_PARAM_COMMS_DATA(std::make_tuple(number, is_p2p != 0),
                          std::make_tuple(std::string(group), std::string(description)), tensors,
                          tensors, rank, std::string(collective), elements, outputs, at::kFloat,
                          std::vector<int64_t>(), std::vector<int64_t>(), first, stride, size);
}

extern "C" void barrier_row(int64_t number, const char* group, const char* description, int rank,
                            int size, int first, int stride) {
  RECORD_PARAM_COMMS(std::make_tuple(number, false),
                     std::make_tuple(std::string(group), std::string(description)), rank,
                     std::string("barrier"), 0, 0, at::kByte, std::vector<int64_t>(),
                     std::vector<int64_t>(), first, stride, size);
}
