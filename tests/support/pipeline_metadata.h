// The side tables of a small job, for the records that RecordMaker writes.
#pragma once

#include <string>

#include "tests/support/record_maker.h"
#include "userspace/wire/metadata.h"

namespace proftrace {

// A capture's tables for one process: sites 1 to 4 are aten::a to aten::d, 5 a boxed call, 6
// evaluate_function, 7 Node::operator().
inline CaptureMetadata TestMetadata() {
  CaptureMetadata metadata;
  PlanTable& plan = metadata.plans[1];
  plan.sites.resize(8);
  for (int i = 1; i <= 4; ++i)
    plan.sites[i].name = std::string("aten::") + static_cast<char>('a' + i - 1);
  plan.sites[6].name = "autograd::engine::evaluate_function: ";
  plan.sites[6].kind = SpanKind::kAutograd;
  plan.sites[7].kind = SpanKind::kAutograd;
  plan.sites[7].scope = Scope::kBackwardFunction;
  ImageTable& image = metadata.images[1];
  image.operators[0x1000] = OperatorEntry{0x1000, "my::op", "out"};
  image.operators[0x2000] = OperatorEntry{0x2000, "profiler::_record_function_enter_new", ""};
  image.operators[0x3000] = OperatorEntry{0x3000, "profiler::_record_function_exit", ""};
  image.node_names[0xa0] = "torch::autograd::generated::AddBackward0";
  image.node_names[0xb0] = "torch::autograd::PyNode";
  image.node_names[0xc0] = "torch::autograd::AccumulateGrad";
  image.python_type_names[0x77] = "MyFunctionBackward";
  ProcessEntry process;
  process.plan = 1;
  process.image = 1;
  process.target.pid = Pid{RecordMaker::kPid};
  metadata.processes.push_back(process);
  return metadata;
}

}  // namespace proftrace
