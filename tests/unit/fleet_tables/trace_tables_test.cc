#include "userspace/fleet_tables/trace_tables.h"

#include <gmock/gmock.h>

namespace proftrace {
namespace {

class TraceTablesTest : public testing::Test {
 protected:
  void Add(const std::string& name, const std::string& category, int64_t begin_ns,
           int64_t duration_ns, int64_t tid = 1, const std::string& args = "{}") {
    SourceEvent event;
    event.name = name;
    event.category = category;
    event.pid = int64_t{7};
    event.tid = tid;
    event.begin_ns = begin_ns;
    event.duration_ns = duration_ns;
    event.args = args;
    tables_.Take(event);
  }
  std::string Operators() {
    std::string text;
    tables_.ForEachOperator([&text](const OperatorRow& row) {
      text += std::string(row.name) + (row.is_annotation ? "* " : " ") + std::to_string(row.calls) +
              " " + std::to_string(row.self_ns) + " " + std::to_string(row.total_ns) + "; ";
      return true;
    });
    return text;
  }

  TraceTables tables_;
};

TEST_F(TraceTablesTest, TimesOfOperators) {
  Add("inner", "cpu_op", 20, 10);
  Add("outer", "cpu_op", 10, 50);
  Add("inner", "cpu_op", 25, 2);  // in itself
  Add("outer", "cpu_op", 15, 5, 2);
  Add("note\\u0041", "user_annotation", 0, 100);
  Add("python", "python_function", 0, 100);
  tables_.Finish();
  EXPECT_EQ(Operators(), "inner 2 10 12; noteA* 1 50 100; outer 2 45 55; ");
}

TEST_F(TraceTablesTest, StepsOfAJobWithoutAGpu) {
  Add("ProfilerStep#8", "user_annotation", 1000, 500);
  Add("ProfilerStep#7", "user_annotation", 0, 1000);
  Add("aten::mm", "cpu_op", 100, 200);
  Add("gloo:all_reduce", "cpu_op", 250, 400, 3);
  Add("c10d::allreduce_", "cpu_op", 300, 300);
  Add("gloo:all_reduce", "cpu_op", 900, 300, 3);
  tables_.Finish();
  ASSERT_EQ(tables_.steps().size(), 2U);
  const StepRow& step = tables_.steps()[0];
  EXPECT_EQ(step.step, 7);
  EXPECT_EQ(step.comm_ns, 500);
  EXPECT_EQ(step.comm_overlap_ns, 50);
  EXPECT_EQ(step.comm_exposed_ns, 450);
  EXPECT_EQ(step.gpu_busy_ns, std::nullopt);
  EXPECT_EQ(tables_.steps()[1].comm_ns, 200);
}

TEST_F(TraceTablesTest, StepsOfAJobWithAGpu) {
  Add("ProfilerStep#0", "user_annotation", 0, 1000);
  Add("aten::mm", "cpu_op", 0, 1000);
  Add("gemm", "kernel", 100, 300, 7, R"({"device": 2, "stream": 7})");
  Add("ncclDevKernel_AllReduce", "kernel", 300, 300, 20, R"({"device": 2, "stream": 20})");
  Add("Memcpy HtoD", "gpu_memcpy", 50, 20, 7, R"({"device": 2, "bytes": 64})");
  Add("gemm", "kernel", 700, 100, 7, R"({"device": 2, "stream": 7})");
  tables_.Finish();
  const StepRow& step = tables_.steps().front();
  EXPECT_EQ(step.gpu_busy_ns, 620);
  EXPECT_EQ(step.gpu_compute_ns, 420);
  EXPECT_EQ(step.gpu_idle_ns, 380);
  EXPECT_EQ(step.comm_ns, 300);
  EXPECT_EQ(step.comm_exposed_ns, 200);
  std::string text;
  tables_.ForEachKernel(7, [&text](const KernelRow& row) {
    text += std::string(row.name) + " " + std::string(row.kind) + " " +
            std::to_string(row.is_communication) + " " + std::to_string(row.calls) + " " +
            std::to_string(row.total_ns) + " " + std::to_string(row.median_ns) + " " +
            std::to_string(row.p99_ns) + " " + std::to_string(row.bytes) + "; ";
    return row.device == 2;
  });
  EXPECT_EQ(text,
            "Memcpy HtoD gpu_memcpy 0 1 20 20 20 64; gemm kernel 0 2 400 100 300 0; "
            "ncclDevKernel_AllReduce kernel 1 1 300 300 300 0; ");
}

}  // namespace
}  // namespace proftrace
