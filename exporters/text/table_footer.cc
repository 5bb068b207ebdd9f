// Writes the lines below the table, and the table as JSON.
#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "exporters/args/recording_json.h"
#include "exporters/sinks/escape.h"
#include "exporters/sinks/output_file.h"
#include "exporters/text/key_averages_json.h"
#include "exporters/text/system_views.h"
#include "exporters/text/table.h"
#include "userspace/base/shown_text.h"

namespace proftrace {
namespace {

// Returns whether a counter is shown even when it is 0, because it tells how much there was to
// lose.
bool IsAlwaysShown(std::string_view counter) {
  return counter == "records" || counter == "begins" || counter == "closed";
}

std::string LedgerLine(const Ledger& ledger) {
  std::string line = "Ledger:";
  ForEachCounter(ledger, [&](std::string_view name, uint64_t value) {
    if (value == 0 && !IsAlwaysShown(name)) return;
    line += (line.back() == ':' ? " " : ", ") + std::string(name) + " " + std::to_string(value);
  });
  return line + "\n";
}

// Returns a line on memory that the table cannot show, and on where its figures end.
std::string MemoryLine(const Timeline& timeline) {
  if (!timeline.has_memory()) return "";
  const MemorySummary& memory = timeline.memory_summary();
  std::string line = "Memory: " + std::to_string(timeline.memory_events().size()) + " events";
  const auto add = [&line](uint64_t count, const char* what) {
    if (count > 0) line += ", " + std::to_string(count) + " " + what;
  };
  add(memory.unknown_frees,
      "frees of blocks from before the window, or before a loss (not counted)");
  add(memory.empty_blocks, "empty blocks (not counted)");
  add(memory.reused_blocks, "blocks whose free was not seen");
  add(memory.untracked, "allocations beyond the table of live blocks");
  if (memory.inconsistent_processes > 0) {
    line += "; running totals are unknown from a loss on";
  }
  return line + "\n";
}

std::string DeviceLedgerLine(const Timeline& timeline) {
  if (!timeline.has_device_records()) return "";
  std::string line = "GPU ledger:";
  ForEachDeviceCounter(timeline.device_ledger(), [&](std::string_view name, uint64_t value) {
    if (value == 0 && name != "records" && name != "merged") return;
    line += (line.back() == ':' ? " " : ", ") + std::string(name) + " " + std::to_string(value);
  });
  line += "\n";
  for (const GpuAgent& agent : timeline.info().gpu_agents) {
    if (agent.failure.empty()) continue;
    line += "GPU agent of PID " + std::to_string(Raw(agent.pid)) + ": " + ShownText(agent.failure) +
            "; " + ShownText(agent.message) + "\n";
  }
  return line;
}

// Returns lines on why devices had nothing to do, in shares of their idle time.
std::string IdleLines(const std::vector<DeviceIdle>& devices) {
  std::string text;
  for (const DeviceIdle& device : devices) {
    const int64_t whole_ns = device.end_ns - device.start_ns;
    if (whole_ns <= 0) continue;
    std::array<char, 200> line;
    const std::string stream =
        device.stream.has_value() ? ", stream " + std::to_string(*device.stream) : "";
    std::snprintf(line.data(), line.size(), "GPU %u of PID %u%s: idle %.3f of %.3f ms (%.1f %%)",
                  device.device, Raw(device.pid), stream.c_str(),
                  static_cast<double>(device.idle_ns) * 1e-6, static_cast<double>(whole_ns) * 1e-6,
                  static_cast<double>(device.idle_ns) * 100 / static_cast<double>(whole_ns));
    text += line.data();
    const std::vector<IdleShare> shares = SharesOf(device);
    for (const IdleShare& share : shares) {
      std::snprintf(line.data(), line.size(), "%s %s %.1f %%",
                    &share == &shares.front() ? ";" : ",",
                    std::string(IdleCauseName(share.cause)).c_str(),
                    static_cast<double>(share.ns) * 100 / static_cast<double>(device.idle_ns));
      text += line.data();
    }
    text += "\n";
  }
  return text;
}

std::string LossLine(const Timeline& timeline) {
  if (timeline.any_loss()) {
    return "Losses: yes; counts and times above may be too small (see the ledger)\n";
  }
  if (!timeline.info().has_end) {
    return "Losses: not known; the recorder was ended before it could tell\n";
  }
  return "Losses: none\n";
}

// The most threads whose steps are told one by one; summary.json has all.
constexpr size_t kMostThreadsOfSteps = 3;

// Returns a line on how the steps were found and how sure that is, so that a wrong guess shows.
std::string StepsLine(const Timeline& timeline, const Steps& steps) {
  if (!steps.main.has_value()) return "Steps: none found\n";
  const ProcessSteps& process = steps.processes[*steps.main];
  const auto of_thread = [&timeline](ThreadIndex thread) {
    return " of TID " + std::to_string(Raw(timeline.thread(thread).tid));
  };
  std::array<char, 160> text;
  std::snprintf(text.data(), text.size(), "Steps: %zu%s, median %.3f ms, p99 %.3f ms; ",
                process.are_alike ? process.count() : process.steps.size(),
                process.are_alike ? "" : of_thread(process.thread).c_str(),
                static_cast<double>(process.median_ns) * 1e-6,
                static_cast<double>(process.p99_ns) * 1e-6);
  std::string line(text.data());
  for (size_t i = 0; !process.are_alike && i < process.others.size(); ++i) {
    if (i == kMostThreadsOfSteps) {
      line += std::to_string(process.others.size() - i) + " more threads have steps; ";
      break;
    }
    const ThreadSteps& other = process.others[i];
    std::snprintf(text.data(), text.size(), "%zu%s, median %.3f ms; ", other.steps.size(),
                  of_thread(other.thread).c_str(), static_cast<double>(other.median_ns) * 1e-6);
    line += text.data();
  }
  if (process.confidence < kGuessBelow) line += "a guess, ";
  line += "by " + ShownText(process.how);
  std::snprintf(text.data(), text.size(), " (confidence %.2f)", process.confidence);
  line += text.data();
  if (steps.processes.size() > 1) {
    line += "; of PID " + std::to_string(Raw(process.pid)) + ", " +
            std::to_string(steps.processes.size()) + " processes have steps";
  }
  return line + "\n";
}

// Returns lines on where the time of the steps went, and on what waits for batches waited for.
std::string TimeLines(const Timeline& timeline, const Aggregates& aggregates) {
  if (!aggregates.time.has_value() || aggregates.time->total_ns <= 0) return "";
  const TimeBreakdown& time = *aggregates.time;
  const Thread& thread = timeline.thread(time.thread);
  std::array<char, 200> text;
  std::string line = time.steps.empty() ? "Time of the window"
                                        : "Time of " + std::to_string(time.steps.size()) + " steps";
  std::snprintf(text.data(), text.size(), " (TID %u of PID %u, %.3f ms):", Raw(thread.tid),
                Raw(thread.pid), static_cast<double>(time.total_ns) * 1e-6);
  line += text.data();
  for (size_t use = 0; use < kTimeUses; ++use) {
    std::snprintf(text.data(), text.size(), "%s %s %.1f %%", use == 0 ? "" : ",",
                  std::string(TimeUseName(static_cast<TimeUse>(use))).c_str(),
                  100.0 * static_cast<double>(time.uses[use]) / static_cast<double>(time.total_ns));
    line += text.data();
  }
  line += "\n";
  const DataWait* longest = nullptr;
  int64_t blocked_ns = 0;
  size_t count = 0;
  for (const DataWait& wait : aggregates.data_waits) {
    if (wait.is_nested) continue;
    ++count;
    blocked_ns += wait.blocked_ns;
    if (longest == nullptr || wait.blocked_ns > longest->blocked_ns) longest = &wait;
  }
  if (longest == nullptr) return line;
  std::snprintf(text.data(), text.size(), "Data: %zu batches, waited %.3f ms, the longest %.3f ms",
                count, static_cast<double>(blocked_ns) * 1e-6,
                static_cast<double>(longest->blocked_ns) * 1e-6);
  line += text.data();
  if (Raw(longest->worker) != 0) {
    std::snprintf(
        text.data(), text.size(), " for worker PID %u (I/O %.3f ms, blocked otherwise %.3f ms)",
        Raw(longest->worker), static_cast<double>(longest->worker_io_ns) * 1e-6,
        static_cast<double>(longest->worker_off_ns - longest->worker_run_queue_ns) * 1e-6);
    line += text.data();
  }
  if (const size_t nested = aggregates.data_waits.size() - count; nested > 0) {
    line += "; workers took " + std::to_string(nested) + " batches from DataLoaders of their own";
  }
  return line + "\n";
}

// Returns a text on the cost of reading inputs.
std::string ReadingsText(const Cost& cost) {
  if (cost.input_readings == 0) return "";
  std::string text = ", " + std::to_string(cost.input_readings) + " of them reading inputs at ";
  if (!cost.input_ns_per_reading.has_value()) return text + "a cost that is not known";
  std::array<char, 64> number;
  std::snprintf(number.data(), number.size(), "%.0f ns more", *cost.input_ns_per_reading);
  return text + number.data();
}

std::string CostLine(const Cost& cost) {
  std::array<char, 160> text;
  std::snprintf(text.data(), text.size(),
                "Cost: estimated overhead %.2f %% (%llu probe hits at %.0f ns",
                cost.estimated_overhead_percent, static_cast<unsigned long long>(cost.probe_hits),
                cost.probe_ns_per_hit);
  std::string line = text.data() + ReadingsText(cost);
  if (cost.jumps > 0) {
    std::snprintf(text.data(), text.size(), ", %llu jumps at %.0f ns",
                  static_cast<unsigned long long>(cost.jumps), cost.ns_per_jump);
    line += text.data();
  }
  line += ")";
  if (cost.busiest_thread_percent.has_value()) {
    absl::StrAppendFormat(&line, ", %.2f %% of the busiest thread's time",
                          *cost.busiest_thread_percent);
  }
  absl::StrAppendFormat(&line, ", tracer CPU time %.2f s", cost.tracer_cpu_s);
  if (!cost.basis.empty()) line += "; " + ShownText(cost.basis);
  return line + "\n";
}

std::string TierLine(const RecordingInfo& info) {
  if (!info.tier_choice.has_value()) return "";
  return absl::StrCat("Recorded by ", info.tier == "patch" ? "jumps" : "the kernel's probes",
                      " (--tier auto): ", ShownText(info.tier_choice->reason), "\n");
}

// The most operators that are named; summary.json names all.
constexpr size_t kMostDemoted = 20;

std::string BudgetLine(const std::optional<Budget>& budget) {
  if (!budget.has_value()) return "";
  std::array<char, 160> text;
  std::snprintf(text.data(), text.size(), "Budget: --max-overhead %g%%, %s",
                budget->max_overhead_percent, budget->is_kept ? "kept" : "NOT KEPT");
  std::string line = text.data();
  const auto add = [&](const char* what, const std::optional<double>& percent) {
    if (!percent.has_value()) return;
    std::snprintf(text.data(), text.size(), "; %s %.2f %%", what, *percent);
    line += text.data();
  };
  if (budget->demoted.empty()) {
    add("estimated overhead", budget->after_percent);
    return line + "; no operator was demoted\n";
  }
  add("estimated overhead before", budget->before_percent);
  add("after", budget->after_percent);
  line += budget->is_of_longer ? "; only counted in the whole recording: " : "; only counted: ";
  for (size_t i = 0; i < std::min(kMostDemoted, budget->demoted.size()); ++i) {
    const DemotedOperator& one = budget->demoted[i];
    line += (i == 0 ? "" : ", ") + ShownText(one.name) + " " + std::to_string(one.calls);
  }
  if (budget->demoted.size() > kMostDemoted) {
    line += ", and " + std::to_string(budget->demoted.size() - kMostDemoted) + " operators more";
  }
  if (budget->step_before_us.has_value() && budget->step_after_us.has_value()) {
    std::snprintf(text.data(), text.size(), "; median step before %.3f ms, after %.3f ms",
                  *budget->step_before_us * 1e-3, *budget->step_after_us * 1e-3);
    line += text.data();
  }
  return line + "\n";
}

// Returns the lines on unsupported features. Features with the same reason share a line, because a
// version of torch may have dozens of functions that are left out for one reason.
std::string UnsupportedLines(const std::vector<Unsupported>& entries, bool is_verbose) {
  struct Group {
    const Unsupported* first = nullptr;
    size_t more = 0;
  };
  std::vector<Group> groups;
  std::map<std::string_view, size_t> by_reason;  // an index into `groups`
  size_t only_loaded = 0;
  for (const Unsupported& entry : entries) {
    if (entry.is_only_loaded && !is_verbose) {
      ++only_loaded;
      continue;
    }
    const auto [known, is_new] = by_reason.try_emplace(entry.reason, groups.size());
    if (is_new) {
      groups.push_back({&entry, 0});
    } else {
      ++groups[known->second].more;
    }
  }
  std::string text;
  for (const Group& group : groups) {
    text += "Not recorded: " + ShownText(group.first->feature);
    if (group.more > 0) {
      text += ", and " + std::to_string(group.more) + " more (summary.json names them)";
    }
    text += ": " + ShownText(group.first->reason) + "\n";
  }
  if (only_loaded > 0) {
    text += "Not recorded if it ran: " + std::to_string(only_loaded) +
            (only_loaded == 1 ? " piece" : " pieces") +
            " of code of loaded libraries, which most jobs never run; --verbose and summary.json "
            "name them\n";
  }
  return text;
}

// The most processes that are named; summary.json and --json have all.
constexpr size_t kMostProcesses = 20;

// Returns a line on the processes whose rows are added up, because torch has a table for each
// process.
std::string ProcessesLine(const std::vector<Pid>& processes) {
  if (processes.size() < 2) return "";
  std::string line = "Rows are sums over " + std::to_string(processes.size()) + " processes: PID ";
  for (size_t i = 0; i < std::min(kMostProcesses, processes.size()); ++i) {
    line += (i == 0 ? "" : ", ") + std::to_string(Raw(processes[i]));
  }
  if (processes.size() > kMostProcesses) {
    line += ", and " + std::to_string(processes.size() - kMostProcesses) + " more";
  }
  return line + "; proftrace report --pid shows one\n";
}

// Returns a line on why a flight recorder wrote the recording.
std::string FlightLine(const RecordingInfo& info) {
  if (!info.flight.has_value()) return "";
  std::array<char, 60> text;
  std::snprintf(text.data(), text.size(), "Flight recorder: the last %.1f s; ",
                static_cast<double>(info.window.duration_ns) * 1e-9);
  return text.data() + ShownText(info.flight->reason) + "\n";
}

}  // namespace

std::string FormatTableFooter(const Timeline& timeline, const Aggregates& aggregates,
                              bool is_verbose) {
  const KeyAverages& averages = aggregates.key_averages;
  std::string text = FlightLine(timeline.info());
  text += ProcessesLine(averages.processes);
  text += StepsLine(timeline, aggregates.steps);
  text += TimeLines(timeline, aggregates);
  text += IdleLines(aggregates.device_idle);
  text += LedgerLine(timeline.ledger());
  text += DeviceLedgerLine(timeline);
  text += LossLine(timeline);
  text += MemoryLine(timeline);
  if (averages.incomplete_spans > 0) {
    const bool is_one = averages.incomplete_spans == 1;
    text += std::to_string(averages.incomplete_spans) +
            (is_one ? " truncated span is" : " truncated spans are") +
            " not in the table: the end was not seen\n";
  }
  text += TierLine(timeline.info());
  text += timeline.info().has_end ? CostLine(timeline.info().cost) : "Cost: not known\n";
  text += BudgetLine(timeline.info().budget);
  return text + UnsupportedLines(timeline.info().unsupported, is_verbose);
}

absl::Status ExportTable(const Timeline& timeline, const Aggregates& aggregates,
                         const TableOptions& options, ByteSink& sink) {
  const absl::StatusOr<std::string> table = FormatTable(aggregates.key_averages, options);
  if (!table.ok()) return table.status();
  if (!timeline.info().system.operators) {
    // No operators were recorded, so this shows the other activities.
    const SystemActivities& system = timeline.info().system;
    SystemViewOptions view;
    view.view = system.calls || system.io ? SystemView::kBySystemCall : SystemView::kWaits;
    StringSink text;
    absl::Status status;
    if (system.calls || system.io || system.sched) {
      status = ExportSystemView(timeline, view, text);
    }
    if (!status.ok()) return status;
    return sink.Write(text.text() + "\n" +
                      FormatTableFooter(timeline, aggregates, options.is_verbose));
  }
  const std::string gap = table->empty() ? "No complete operator in the recorded window\n\n" : "\n";
  return sink.Write(*table + gap + FormatTableFooter(timeline, aggregates, options.is_verbose));
}

absl::Status ExportTableJson(const Timeline& timeline, const Aggregates& aggregates,
                             const TableOptions& options, ByteSink& sink) {
  const KeyAverages& averages = aggregates.key_averages;
  if (absl::Status status = CheckTableOptions(options); !status.ok()) return status;
  OrderedJson rows = OrderedJson::array();
  for (const KeyAverage* row : ShownRows(averages, options)) {
    rows.push_back(KeyAverageJson(*row, averages));
  }
  OrderedJson json = {{"rows", std::move(rows)},
                      {"total_rows", averages.rows.size()},
                      {"total_average", KeyAverageJson(TotalAverage(averages), averages)},
                      {"processes", ProcessesJson(averages)},
                      {"sort_by", TextOrNull(options.sort_by)},
                      {"self_cpu_time_total_us", InMicroseconds(averages.self_cpu_time_total_ns)},
                      {"spans_without_end", averages.incomplete_spans},
                      {"steps", StepsJson(timeline, aggregates.steps)},
                      {"ledger", LedgerJson(timeline.ledger())},
                      {"cost", CostJson(timeline.info())},
                      {"unsupported", UnsupportedJson(timeline.info())}};
  if (averages.has_device_records) {
    json["self_device_time_total_us"] = InMicroseconds(averages.self_device_time_total_ns);
    json["gpu"] = GpuJson(timeline);
  }
  return WriteJson(json, sink);
}

}  // namespace proftrace
