// Makes the tables of `proftrace top` from the rows of the aggregates, per step.
#include <absl/strings/str_format.h>

#include <algorithm>
#include <numeric>

#include "exporters/text/system_views.h"
#include "userspace/aggregate/file_io.h"
#include "userspace/aggregate/function_times.h"
#include "userspace/aggregate/python_text.h"
#include "userspace/aggregate/thread_times.h"
#include "userspace/aggregate/wait_sums.h"
#include "userspace/top/top_model.h"
#include "userspace/why/case.h"

namespace proftrace {
namespace {

constexpr double kPercent = 100;

class TableMaker {
 public:
  TableMaker(const Timeline& timeline, const Aggregates& aggregates, const TopThreads& threads,
             const TopScale& scale, TopModel* model)
      : timeline_(timeline),
        aggregates_(aggregates),
        threads_(threads),
        scale_(scale),
        model_(model) {
    for (const Thread& thread : timeline.threads()) {
      is_chosen_.push_back(threads.empty() || threads.contains({Raw(thread.pid), Raw(thread.tid)}));
    }
  }

  void AddAll() {
    AddOperators();
    AddModules();
    AddPython();
    AddThreads();
    AddFiles();
    AddWaits();
    for (TopTable& table : model_->tables) Sort(&table);
  }

 private:
  TopTable& Table(TopView view) { return model_->tables[static_cast<size_t>(view)]; }
  const StepWindows* windows() const { return &aggregates_.all_steps; }
  const std::vector<bool>* chosen() const { return threads_.empty() ? nullptr : &is_chosen_; }

  static void Sort(TopTable* table) {
    std::stable_sort(table->rows.begin(), table->rows.end(), [](const TopRow& a, const TopRow& b) {
      return a.values.front() > b.values.front();
    });
    if (table->rows.size() <= kMostTopRows) return;
    table->left_out = table->rows.size() - kMostTopRows;
    table->rows.resize(kMostTopRows);
  }

  // Returns the values of the window by row, with zeros for rows that have nothing in it.
  static std::vector<ShareValues> ByRow(const std::vector<WindowShare>& shares, size_t rows) {
    std::vector<ShareValues> values(rows);
    for (const WindowShare& share : shares) {
      if (share.row < rows) values[share.row] = share.values;
    }
    return values;
  }

  void AddOperators() {
    KeyAverages of_threads;
    const KeyAverages* averages = &aggregates_.key_averages;
    if (chosen() != nullptr) {
      KeyAveragesOptions options;
      options.windows = windows();
      options.threads = chosen();
      of_threads = BuildKeyAverages(timeline_, options, aggregates_.step_rows);
      averages = &of_threads;
    }
    TopTable& operators = Table(TopView::kOperators);
    operators.columns = {{"self_ms", "SELF ms", TopUnit::kMs},
                         {"self_percent", "SELF%", TopUnit::kPercent},
                         {"total_ms", "TOTAL ms", TopUnit::kMs},
                         {"calls", "CALLS", TopUnit::kCount}};
    if (timeline_.has_device_records()) {
      operators.columns.push_back({"gpu_ms", "GPU ms", TopUnit::kMs});
    } else if (!timeline_.info().system.operators) {
      operators.missing = "Operators are not recorded: add cpu to --activities.";
    }
    AddGpuColumns();
    const std::vector<ShareValues> values = ByRow(averages->by_window, averages->rows.size());
    int64_t cpu_ns = 0;
    int64_t gpu_ns = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      if (!averages->rows[i].is_device) cpu_ns += values[i][1];
      if (IsWorkOfDevice(averages->rows[i])) gpu_ns += values[i][3];
    }
    for (size_t i = 0; i < values.size(); ++i) {
      const KeyAverage& row = averages->rows[i];
      const auto& [count, self_ns, total_ns, device_ns] = values[i];
      if (count == 0) continue;
      if (IsWorkOfDevice(row)) {
        Table(TopView::kGpu)
            .rows.push_back(
                {row.name,
                 {scale_.Ms(device_ns), Percent(device_ns, gpu_ns), scale_.Count(count)},
                 std::nullopt});
      }
      if (row.is_device) continue;
      TopRow shown{
          row.name,
          {scale_.Ms(self_ns), Percent(self_ns, cpu_ns), scale_.Ms(total_ns), scale_.Count(count)},
          std::nullopt};
      if (timeline_.has_device_records()) shown.values.push_back(scale_.Ms(device_ns));
      operators.rows.push_back(std::move(shown));
    }
  }

  static bool IsWorkOfDevice(const KeyAverage& row) {
    return row.is_device && !row.is_user_annotation;
  }
  static double Percent(int64_t ns, int64_t of_ns) {
    return of_ns <= 0 ? 0 : kPercent * static_cast<double>(ns) / static_cast<double>(of_ns);
  }

  void AddGpuColumns() {
    TopTable& gpu = Table(TopView::kGpu);
    gpu.columns = {{"gpu_ms", "GPU ms", TopUnit::kMs},
                   {"gpu_percent", "GPU%", TopUnit::kPercent},
                   {"calls", "CALLS", TopUnit::kCount}};
    if (timeline_.has_device_records()) return;
    gpu.missing =
        "No GPU's work is recorded: the job uses none, or CUPTI could not be used (proftrace "
        "doctor -p PID says why).";
  }

  void AddModules() {
    TopTable& table = Table(TopView::kModules);
    table.columns = {{"forward_ms", "FORWARD ms", TopUnit::kMs},
                     {"self_forward_ms", "SELF ms", TopUnit::kMs},
                     {"backward_ms", "BACKWARD ms", TopUnit::kMs},
                     {"calls", "CALLS", TopUnit::kCount}};
    if (!NeedsStacks(&table)) return;
    const std::vector<ModuleTimes>& modules = aggregates_.modules.modules;
    const std::vector<ShareValues> values = ByRow(aggregates_.module_shares, modules.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const auto& [calls, forward_ns, self_ns, backward_ns] = values[i];
      if (calls == 0 && backward_ns == 0) continue;
      const PythonModule& module = timeline_.python_modules()[modules[i].module];
      std::string name = modules[i].instances > 1 ? module.class_name : PythonModuleText(module);
      if (!module.path.empty()) name = module.path + " (" + name + ")";
      table.rows.push_back(
          {std::move(name),
           {scale_.Ms(forward_ns), scale_.Ms(self_ns), scale_.Ms(backward_ns), scale_.Count(calls)},
           std::nullopt});
    }
  }

  // Returns whether stacks were recorded, and notes it in the table where they were not.
  bool NeedsStacks(TopTable* table) const {
    if (timeline_.has_stacks()) return true;
    table->missing = "Stacks of Python are not recorded: start top with --with-stack.";
    return false;
  }

  void AddPython() {
    TopTable& table = Table(TopView::kPython);
    table.columns = {{"self_ms", "SELF ms", TopUnit::kMs},
                     {"total_ms", "TOTAL ms", TopUnit::kMs},
                     {"calls", "CALLS", TopUnit::kCount}};
    if (!NeedsStacks(&table)) return;
    for (const FunctionTimes& times :
         SumFunctions(timeline_, aggregates_.python_rows, windows()->intervals.front(), chosen())) {
      table.rows.push_back({PythonFunctionText(timeline_.python_codes()[times.code]),
                            {scale_.Ms(times.self_ns), scale_.Ms(times.total_ns),
                             scale_.Count(static_cast<int64_t>(times.calls))},
                            std::nullopt});
    }
  }

  void AddThreads() {
    TopTable& table = Table(TopView::kThreads);
    const bool has_kernel = IsSchedulerWhole(timeline_);
    if (has_kernel) {
      table.columns = {
          {"compute_ms", "CPU ms", TopUnit::kMs}, {"data_ms", "DATA", TopUnit::kMs},
          {"io_ms", "I/O", TopUnit::kMs},         {"lock_ms", "LOCK", TopUnit::kMs},
          {"event_ms", "EVENT", TopUnit::kMs},    {"run_queue_ms", "RUNQ", TopUnit::kMs},
          {"other_ms", "OTHER", TopUnit::kMs},    {"tid", "TID", TopUnit::kNumber}};
    } else {
      table.columns = {{"rows_ms", "IN ROWS ms", TopUnit::kMs}, {"tid", "TID", TopUnit::kNumber}};
    }
    for (const ThreadTimes& times : SumThreads(timeline_, windows()->intervals.front())) {
      const Thread& thread = timeline_.thread(times.thread);
      const auto of = [&](TimeUse use) { return times.uses[static_cast<size_t>(use)]; };
      TopRow row;
      row.name = thread.name;
      if (model_->processes > 1) row.name += absl::StrFormat(" (PID %d)", Raw(thread.pid));
      row.thread = {thread.pid, thread.tid};
      if (has_kernel) {
        row.values = {scale_.Ms(of(TimeUse::kCompute)),
                      scale_.Ms(of(TimeUse::kData)),
                      scale_.Ms(of(TimeUse::kIo)),
                      scale_.Ms(of(TimeUse::kLock)),
                      scale_.Ms(of(TimeUse::kEvent)),
                      scale_.Ms(of(TimeUse::kRunQueue)),
                      scale_.Ms(of(TimeUse::kFaults) + of(TimeUse::kOther))};
      } else {
        row.values = {scale_.Ms(times.rows_ns)};
      }
      row.values.push_back(static_cast<double>(Raw(thread.tid)));
      table.rows.push_back(std::move(row));
    }
  }

  void AddFiles() {
    TopTable& table = Table(TopView::kFiles);
    table.columns = {{"time_ms", "TIME ms", TopUnit::kMs},
                     {"calls", "CALLS", TopUnit::kCount},
                     {"read_bytes", "READ", TopUnit::kBytes},
                     {"written_bytes", "WRITTEN", TopUnit::kBytes}};
    if (!timeline_.info().system.calls && !timeline_.info().system.io) {
      table.missing = "Files are not recorded: add io to --activities.";
      return;
    }
    std::vector<WindowShare> shares;
    const std::vector<FileIo> files = SumFileIo(timeline_, windows(), &shares);
    const std::vector<ShareValues> values = ByRow(shares, files.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const auto& [calls, time_ns, read, written] = values[i];
      if (calls == 0) continue;
      std::string name = files[i].name;
      if (const std::string_view kind = FileKindName(files[i].kind);
          !kind.empty() && kind != "file") {
        name += " (" + std::string(kind) + ")";
      }
      table.rows.push_back(
          {std::move(name),
           {scale_.Ms(time_ns), scale_.Count(calls), scale_.Count(read), scale_.Count(written)},
           std::nullopt});
    }
  }

  std::string WaitText(const WaitSum& wait) const {
    const Pid own = timeline_.thread(wait.thread).pid;
    std::string text = ThreadPlaceText(timeline_, wait.thread, own) + ": " +
                       std::string(WaitReasonName(wait.reason));
    if (const std::string place = WaitPlaceText(timeline_, wait.place); !place.empty()) {
      text += " in " + place;
    }
    if (wait.waker_is_known) {
      text += ", woken by " + ThreadPlaceText(timeline_, wait.waker_thread, own);
      if (const std::string place = WaitPlaceText(timeline_, wait.waker); !place.empty()) {
        text += " in " + place;
      }
    } else if (Raw(wait.waker_tid) != 0) {
      text += absl::StrFormat(", woken by TID %d", Raw(wait.waker_tid));
    }
    return text;
  }

  void AddWaits() {
    TopTable& table = Table(TopView::kWaits);
    table.columns = {{"blocked_ms", "BLOCKED ms", TopUnit::kMs},
                     {"waits", "WAITS", TopUnit::kCount}};
    if (!timeline_.has_sched()) {
      table.missing = "Waits are not recorded: add sched to --activities.";
      return;
    }
    std::vector<WindowShare> shares;
    const std::vector<WaitSum> waits = SumWaits(timeline_, windows(), &shares);
    const std::vector<ShareValues> values = ByRow(shares, waits.size());
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i][0] == 0 || !is_chosen_[Raw(waits[i].thread)]) continue;
      const Thread& thread = timeline_.thread(waits[i].thread);
      table.rows.push_back({WaitText(waits[i]),
                            {scale_.Ms(values[i][1]), scale_.Count(values[i][0])},
                            std::pair(thread.pid, thread.tid)});
    }
  }

  const Timeline& timeline_;
  const Aggregates& aggregates_;
  const TopThreads& threads_;
  const TopScale scale_;
  TopModel* model_;
  std::vector<bool> is_chosen_;  // by ThreadIndex
};

}  // namespace

void AddTopTables(const Timeline& timeline, const Aggregates& aggregates, const TopThreads& threads,
                  const TopScale& scale, TopModel* model) {
  TableMaker(timeline, aggregates, threads, scale, model).AddAll();
}

}  // namespace proftrace
