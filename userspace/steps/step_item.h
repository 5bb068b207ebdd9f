// The items that step detection looks at: the calls of one thread that lie in no row except
// annotations, in order of their start. Names are reduced to a number and a class, so that the same
// code works on a finished recording and on the stream of records.
#pragma once

#include <cstdint>
#include <string_view>

namespace proftrace {

// The class of an item says what the item shows about its place in the loop.
enum class ItemClass : uint8_t {
  kOther = 0,      // work
  kAnnotation,     // an annotation of the job: its children are items as well
  kBackward,       // autograd runs a node
  kAccumulate,     // autograd's node that adds to the gradient of a parameter
  kUpdate,         // an operator that optimizers write parameters with
  kOptimizerStep,  // Optimizer.step#…
  kZeroGrad,       // Optimizer.zero_grad#…
  kLoaderNext,     // enumerate(DataLoader)#….__next__
  kProfilerStep,   // ProfilerStep#N
  kRead,           // a value is fetched from a tensor: metrics and logging
  kDetach,         // takes a value out of autograd's graph, often so that it can be kept
  kReduce,         // makes a value to be looked at: part of a loss, or of logging
  kSource,         // makes data: inputs, noise, a prompt, a token's embedding
  kDraw,           // numbers at random, as for a seed
  kSample,         // draws from a distribution: policies, generation
  kChoice,         // takes the best: greedy policies and generation, where it is fetched next
  kView,           // gives the same values another shape
  kLoss,           // compares what a model made with what it should have made
};

struct StepItem {
  int64_t start_ns = 0;
  int64_t end_ns = 0;   // an annotation's may be 0: not known
  uint32_t symbol = 0;  // equal for equal names
  ItemClass item_class = ItemClass::kOther;
  bool is_open = false;  // its end was not seen
  // It may belong to the next item where that is an annotation: before 2.0 entering an annotation
  // makes a tensor of zeros that holds its handle (record_function_ops.cpp).
  bool may_be_entering = false;
  // Something was called within the item. For kLoaderNext: to put a batch together.
  bool has_calls = false;

  // Returns the time from which on the next item may begin. For an annotation this is its start,
  // because the rows within it are items of their own.
  int64_t busy_until_ns() const { return item_class == ItemClass::kAnnotation ? start_ns : end_ns; }
};

inline bool IsAnnotation(ItemClass item_class) {
  return item_class == ItemClass::kAnnotation || item_class == ItemClass::kOptimizerStep ||
         item_class == ItemClass::kZeroGrad || item_class == ItemClass::kLoaderNext ||
         item_class == ItemClass::kProfilerStep;
}

inline bool IsBackward(ItemClass item_class) {
  return item_class == ItemClass::kBackward || item_class == ItemClass::kAccumulate;
}

// Finds the class by the names that PyTorch gives (torch/optim/optimizer.py,
// torch/utils/data/dataloader.py, torch/profiler/profiler.py, native_functions.yaml).
// `overload_name`: that of an operator; "" where there is none.
ItemClass ClassifyItem(std::string_view name, std::string_view overload_name, bool is_annotation,
                       bool is_autograd);

}  // namespace proftrace
