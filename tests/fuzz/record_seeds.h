// Sound records of the kinds that pipeline_seeds.cc does not make itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace proftrace {

// RecordFunctions, TorchScript's frames, collectives, autograd's numbers, long inputs, memory.
std::vector<std::byte> EveryRowKind();
// Code objects, stacks and modules of --with-stack.
std::vector<std::byte> EveryPythonKind();
// --sample and --waker-stacks.
std::vector<std::byte> EverySampleKind();

// What is wrong with these seeds together: kinds that the decoder knows and none of them has, and
// records that it does not take. Empty: nothing.
std::string WrongWithSeeds(std::span<const std::vector<std::byte>> seeds);

}  // namespace proftrace
