#include <gtest/gtest.h>

#include <string>

#include "userspace/aggregate/flops.h"

namespace proftrace {
namespace {

int64_t Flops(const char* name, std::string dims, std::string concrete = "[]",
              std::string types = R"(["float", "float", "float"])") {
  OperatorInputs inputs;
  inputs.dims = std::move(dims);
  inputs.types = std::move(types);
  inputs.concrete = std::move(concrete);
  return FlopsOf(name, inputs);
}

TEST(FlopsTest, Matrices) {
  EXPECT_EQ(Flops("aten::mm", "[[3, 4], [4, 5]]"), 120);
  EXPECT_EQ(Flops("aten::addmm", "[[5], [3, 4], [4, 5], [], []]"), 120);
  EXPECT_EQ(Flops("aten::bmm", "[[2, 3, 4], [2, 4, 5]]"), 240);
  EXPECT_EQ(Flops("aten::baddbmm", "[[2, 3, 5], [2, 3, 4], [2, 4, 5], [], []]"), 240);
  EXPECT_EQ(Flops("aten::mm", "[[3, 0], [0, 5]]"), 0);
  EXPECT_EQ(Flops("aten::bmm", "[[0, 3, 4], [0, 4, 5]]"), 0);
}

TEST(FlopsTest, ElementwiseByTheFirstShape) {
  EXPECT_EQ(Flops("aten::mul", "[[4], [3, 4]]"), 4);
  EXPECT_EQ(Flops("aten::add", "[[], [], []]"), 1);
  EXPECT_EQ(Flops("aten::sub", "[[4], [4], []]"), 0) << "torch has no formula";
  // A nested tensor, or one with symbolic sizes.
  EXPECT_EQ(Flops("aten::mul", "[[], []]", "[]", R"(["", "long int"])"), 0);
}

// TorchScript's operators have all of the interpreter's stack as inputs: torch counts by what lies
// at its bottom, and only where that is a tensor.
TEST(FlopsTest, WhatIsNoTensorHasNone) {
  EXPECT_EQ(Flops("aten::mul", "[[], [3, 4], []]", "[]", R"(["Scalar", "float", "Scalar"])"), 0);
  EXPECT_EQ(
      Flops("aten::add", "[[[3, 4]], [3, 4], []]", "[]", R"(["TensorList", "float", "Scalar"])"),
      0);
  EXPECT_EQ(Flops("aten::add", "[[], [3, 4], []]", "[]", R"(["ScalarList", "float", "Scalar"])"),
            0);
  EXPECT_EQ(Flops("aten::mm", "[[3, 4], [], [4, 5]]", "[]", R"(["float", "Scalar", "float"])"), 0);
  EXPECT_EQ(Flops("aten::addmm", "[[], [3, 4], [4, 5]]", "[]", R"(["Scalar", "float", "float"])"),
            0);
  EXPECT_EQ(Flops("aten::mm", "[[3, 4], [], [4, 5]]"), 6) << "a tensor without dimensions";
}

TEST(FlopsTest, Convolutions) {
  constexpr char kDims[] = "[[2, 4, 9, 8], [6, 4, 3, 2], [], [], [], [], []]";
  EXPECT_EQ(Flops("aten::conv2d", kDims, R"(["", "", "", "[2, 2]", "[1, 1]", "[1, 2]", "1"])"),
            11520);
  EXPECT_EQ(Flops("aten::conv2d", "[[2, 4, 9, 8], [6, 2, 3, 2], [], [], [], [], []]",
                  R"(["", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "2"])"),
            14112);
  EXPECT_EQ(Flops("aten::conv2d", kDims, R"(["", "", "", "[1, 1]", "same", "[1, 1]", "1"])"), 0);
}

TEST(FlopsTest, WhatDoesNotFitHasNone) {
  EXPECT_EQ(Flops("aten::mm", ""), 0);
  EXPECT_EQ(Flops("aten::mm", "{"), 0);
  EXPECT_EQ(Flops("aten::mm", "[[3, 4]]"), 0);
  EXPECT_EQ(Flops("aten::mm", "[[\"a\"], [4, 5]]"), 0);
  EXPECT_EQ(Flops("aten::mm", "[[-3, 4], [4, 5]]"), 0);
  EXPECT_EQ(Flops("aten::mm", "[[1000000000, 1000000000], [1000000000, 1000000000]]"), 0);
  constexpr char kDims[] = "[[2, 4, 9, 8], [6, 0, 3, 2], [], [], [], [], []]";
  EXPECT_EQ(Flops("aten::conv2d", kDims, R"(["", "", "", "[2, 2]", "[1, 1]", "[1, 2]", "1"])"), 0);
  EXPECT_EQ(Flops("aten::conv2d", "[[2, 4, 9, 8], [6, 4, 3, 2]]",
                  R"(["", "", "", "[0, 0]", "[1, 1]", "[1, 2]", "0"])"),
            0);
}

}  // namespace
}  // namespace proftrace
