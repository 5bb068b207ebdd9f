#include "exporters/text/table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "exporters/sinks/escape.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/nearest_word.h"
#include "userspace/base/shown_text.h"

namespace proftrace {
namespace {

constexpr size_t kNumberColumnWidth = 12;  // torch's DEFAULT_COLUMN_WIDTH
constexpr size_t kNamePadding = 4;
constexpr size_t kSpacing = 2;
constexpr int kMinNameColumnWidth = 4;

struct SortKey {
  std::string_view name;
  double (*value)(const KeyAverage&);
};

constexpr std::array<SortKey, 16> kSortKeys = {{
    {"flops", [](const KeyAverage& row) { return static_cast<double>(row.flops); }},
    {"count", [](const KeyAverage& row) { return static_cast<double>(row.count); }},
    {"cpu_time", [](const KeyAverage& row) { return row.cpu_time_us(); }},
    {"cpu_time_total",
     [](const KeyAverage& row) { return static_cast<double>(row.cpu_time_total_ns); }},
    {"self_cpu_time_total",
     [](const KeyAverage& row) { return static_cast<double>(row.self_cpu_time_total_ns); }},
    {"device_time", [](const KeyAverage& row) { return row.device_time_us(); }},
    {"device_time_total",
     [](const KeyAverage& row) { return static_cast<double>(row.device_time_total_ns); }},
    {"self_device_time_total",
     [](const KeyAverage& row) { return static_cast<double>(row.self_device_time_total_ns); }},
    {"cpu_memory_usage",
     [](const KeyAverage& row) { return static_cast<double>(row.memory.cpu_bytes); }},
    {"self_cpu_memory_usage",
     [](const KeyAverage& row) { return static_cast<double>(row.memory.self_cpu_bytes); }},
    {"device_memory_usage",
     [](const KeyAverage& row) { return static_cast<double>(row.memory.device_bytes); }},
    {"self_device_memory_usage",
     [](const KeyAverage& row) { return static_cast<double>(row.memory.self_device_bytes); }},
    // These keys are not torch's.
    {"self_on_cpu_time",
     [](const KeyAverage& row) { return static_cast<double>(row.self_on_cpu_ns()); }},
    {"self_off_cpu_time",
     [](const KeyAverage& row) { return static_cast<double>(row.system.self_off_cpu_ns); }},
    {"syscalls", [](const KeyAverage& row) { return static_cast<double>(row.system.self_calls); }},
    {"page_faults",
     [](const KeyAverage& row) { return static_cast<double>(row.system.self_faults); }},
}};

// Returns the current name of a key. torch's older spelling of "device_time" is "cuda_time"
// (_build_table).
std::string CanonicalKey(std::string_view name) {
  std::string key(name);
  for (const std::string_view device : {"cuda", "xpu", "privateuse1"}) {
    for (size_t at = key.find(device); at != std::string::npos; at = key.find(device, at + 1)) {
      key.replace(at, device.size(), "device");
    }
  }
  return key;
}

const SortKey* FindSortKey(std::string_view text) {
  const std::string name = CanonicalKey(text);
  const auto it = std::find_if(kSortKeys.begin(), kSortKeys.end(),
                               [&](const SortKey& key) { return key.name == name; });
  return it == kSortKeys.end() ? nullptr : &*it;
}

std::string Printf(const char* format, double value) {
  std::array<char, 400> text;
  const int length = std::snprintf(text.data(), text.size(), format, value);
  return std::string(text.data(), static_cast<size_t>(length));
}

// Formats a time by torch's divisions in torch's order, so that the last digit is rounded the same.
std::string FormatTime(double us, TimeUnit unit) {
  constexpr double kUsInSecond = 1000.0 * 1000.0;
  constexpr double kUsInMs = 1000.0;
  if (unit == TimeUnit::kAuto) {
    unit = us >= kUsInSecond ? TimeUnit::kSeconds
           : us >= kUsInMs   ? TimeUnit::kMilliseconds
                             : TimeUnit::kMicroseconds;
  }
  switch (unit) {
    case TimeUnit::kSeconds:
      return Printf("%.3fs", us / kUsInSecond);
    case TimeUnit::kMilliseconds:
      return Printf("%.3fms", us / kUsInMs);
    case TimeUnit::kMicroseconds:
    case TimeUnit::kAuto:
      break;
  }
  return Printf("%.3fus", us);
}

std::string FormatShare(double us, double total_us) {
  if (total_us == 0) return "NaN";
  return Printf("%.2f%%", us * 100.0 / total_us);
}

// Formats bytes as torch's _format_memory() does.
std::string FormatMemory(int64_t bytes) {
  constexpr double kUnit = 1024.0;
  const double size = static_cast<double>(bytes);
  const double magnitude = std::abs(size);
  if (magnitude >= kUnit * kUnit * kUnit) return Printf("%.2f GB", size / (kUnit * kUnit * kUnit));
  if (magnitude >= kUnit * kUnit) return Printf("%.2f MB", size / (kUnit * kUnit));
  if (magnitude >= kUnit) return Printf("%.2f KB", size / kUnit);
  return std::to_string(bytes) + " B";
}

double Microseconds(int64_t ns) { return static_cast<double>(ns) / 1000.0; }

// Cuts a name as torch does: names that nearly fill the column get an ellipsis.
std::string CutName(const std::string& name, const std::optional<int>& max_width) {
  if (!max_width.has_value()) return name;
  const size_t limit = static_cast<size_t>(*max_width - 3);
  if (CodePoints(name) < limit) return name;
  return std::string(FirstCodePoints(name, limit)) + "...";
}

// Cuts a frame as torch does: from the left, with dots where there is room for them.
std::string CutSource(const std::string& text, size_t width) {
  constexpr std::string_view kDots = "...";
  const size_t length = CodePoints(text);
  if (length <= width) return text;
  const std::string_view dots = width > kDots.size() ? kDots : "";
  const size_t cut = FirstCodePoints(text, length - width + dots.size()).size();
  return std::string(dots) + text.substr(cut);
}

void AppendCell(const std::string& text, size_t width, bool to_the_left, std::string* line) {
  const size_t length = CodePoints(text);
  const size_t padding = length < width ? width - length : 0;
  if (!to_the_left) line->append(padding, ' ');
  *line += text;
  line->append((to_the_left ? padding : 0) + kSpacing, ' ');
}

// The unit of the column, which torch chooses by its smallest number (auto_scale_flops).
struct FlopsScale {
  double factor = 1;
  std::string_view unit;
};

FlopsScale ScaleOf(int64_t smallest) {
  constexpr std::array<std::string_view, 6> kUnits = {"FLOPs",  "KFLOPs", "MFLOPs",
                                                      "GFLOPs", "TFLOPs", "PFLOPs"};
  const double thousands = std::floor(
      std::clamp(std::log10(static_cast<double>(smallest)) / 3, 0.0, kUnits.size() - 1.0));
  return {std::pow(10, thousands * -3), kUnits[static_cast<size_t>(thousands)]};
}

class TableFormatter {
 public:
  TableFormatter(const KeyAverages& averages, const TableOptions& options)
      : averages_(averages), options_(options) {
    int64_t smallest_flops = 0;
    for (const KeyAverage& row : averages.rows) {
      rows_.push_back(&row);
      if (row.flops > 0 && (smallest_flops == 0 || row.flops < smallest_flops)) {
        smallest_flops = row.flops;
      }
      has_overload_names_ |= !row.overload_name.empty();
      has_device_time_ |= row.self_device_time_total_ns > 0;
      has_device_memory_ |= averages.memory_device != 0 && row.memory.self_device_bytes > 0;
      has_input_shapes_ |= row.input_shapes.size() > 2;  // torch does not count "[]"
      shapes_width_ = std::max(shapes_width_, row.input_shapes.size() + kNamePadding);
      name_width_ = std::max(name_width_, CodePoints(ShownText(row.name)) + kNamePadding);
      for (const std::string& frame : row.stack) {
        source_width_ = std::max(source_width_, CodePoints(ShownText(frame)) + kNamePadding);
      }
    }
    // Where no row has flops there is no column.
    has_flops_ = averages.has_flops && smallest_flops > 0;
    if (has_flops_) flops_scale_ = ScaleOf(smallest_flops);
    Limit(options.max_name_column_width, &name_width_);
    Limit(options.max_shapes_column_width, &shapes_width_);
    Limit(options.max_src_column_width, &source_width_);
    if (const SortKey* key = FindSortKey(options.sort_by); key != nullptr) {
      std::stable_sort(rows_.begin(), rows_.end(), [&](const KeyAverage* a, const KeyAverage* b) {
        return key->value(*a) > key->value(*b);
      });
    }
  }

  // Returns the rows that are shown, in order.
  std::vector<const KeyAverage*> Shown() const {
    std::vector<const KeyAverage*> shown;
    for (const KeyAverage* row : rows_) {
      if (options_.row_limit >= 0 && shown.size() == static_cast<size_t>(options_.row_limit)) break;
      if (options_.top_level_events_only && !row->is_top_level) continue;
      shown.push_back(row);
    }
    return shown;
  }

  std::string Format() const {
    std::vector<std::string> headers = {"Name"};
    if (has_overload_names_) headers.push_back("Overload Name");
    headers.insert(headers.end(),
                   {"Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"});
    if (averages_.system.sched) headers.insert(headers.end(), {"Self On-CPU", "Self Off-CPU"});
    if (averages_.system.calls) headers.push_back("Syscalls");
    if (averages_.system.faults) headers.push_back("Page faults");
    if (has_device_time_) {
      headers.insert(headers.end(), {"Self CUDA", "Self CUDA %", "CUDA total", "CUDA time avg"});
    }
    if (averages_.has_memory) headers.insert(headers.end(), {"CPU Mem", "Self CPU Mem"});
    if (has_device_memory_) {
      const std::string device(DeviceTypeName(averages_.memory_device));
      headers.insert(headers.end(), {device + " Mem", "Self " + device + " Mem"});
    }
    headers.push_back("# of Calls");
    if (has_input_shapes_) headers.push_back("Input Shapes");
    if (has_stacks()) headers.push_back("Source Location");
    if (has_flops_) headers.push_back("Total " + std::string(flops_scale_.unit));
    const size_t line_length = Separator().size() - kSpacing;
    std::string text;
    if (!options_.header.empty()) {
      text += std::string(line_length, '=') + "\n" + options_.header + "\n";
    }
    if (options_.top_level_events_only) {
      text +=
          std::string(line_length, '=') + "\nThis report only display top-level ops statistics\n";
    }
    text += Separator() + "\n" + Line(headers) + Separator() + "\n";
    for (const KeyAverage* row : Shown()) {
      text += Line(Cells(*row));
      if (has_stacks()) text += CallerLines(*row);
    }
    text += Separator() + "\n";
    text += "Self CPU time total: " + Time(averages_.self_cpu_time_total_ns) + "\n";
    if (has_device_time_) {
      text += "Self CUDA time total: " + Time(averages_.self_device_time_total_ns) + "\n";
    }
    return text;
  }

 private:
  static void Limit(std::optional<int> most, size_t* width) {
    if (most.has_value()) *width = std::min(*width, static_cast<size_t>(*most));
  }

  bool has_stacks() const { return source_width_ > 0; }
  bool IsSource(size_t column) const {
    return has_stacks() && column + (has_flops_ ? 2 : 1) == ColumnCount();
  }
  size_t ColumnWidth(size_t column) const {
    if (IsSource(column)) return source_width_;
    const size_t after_shapes = (has_flops_ ? 2u : 1u) + (has_stacks() ? 1u : 0u);
    if (has_input_shapes_ && column + after_shapes == ColumnCount()) return shapes_width_;
    return column < (has_overload_names_ ? 2u : 1u) ? name_width_ : kNumberColumnWidth;
  }
  size_t ColumnCount() const {
    return 7u + (has_overload_names_ ? 1u : 0u) + (has_device_time_ ? 4u : 0u) +
           (averages_.system.sched ? 2u : 0u) + (averages_.system.calls ? 1u : 0u) +
           (averages_.system.faults ? 1u : 0u) + (averages_.has_memory ? 2u : 0u) +
           (has_device_memory_ ? 2u : 0u) + (has_input_shapes_ ? 1u : 0u) +
           (has_stacks() ? 1u : 0u) + (has_flops_ ? 1u : 0u);
  }

  std::string Separator() const {
    std::string separator;
    for (size_t column = 0; column < ColumnCount(); ++column) {
      separator.append(ColumnWidth(column), '-');
      separator.append(kSpacing, ' ');
    }
    return separator;
  }

  std::string Line(const std::vector<std::string>& cells) const {
    std::string line;
    for (size_t column = 0; column < cells.size(); ++column) {
      AppendCell(cells[column], ColumnWidth(column), IsSource(column), &line);
    }
    line.push_back('\n');
    return line;
  }

  std::string SourceCell(const std::string& frame) const {
    return CutSource(ShownText(frame), source_width_);
  }

  // Returns a line for each further frame, and an empty line.
  std::string CallerLines(const KeyAverage& row) const {
    std::string text;
    std::vector<std::string> cells(ColumnCount());
    for (size_t i = 1; i < row.stack.size(); ++i) {
      cells.back() = SourceCell(row.stack[i]);
      text += Line(cells);
    }
    cells.back().clear();
    return text + Line(cells);
  }

  std::string Time(int64_t ns) const { return FormatTime(Microseconds(ns), options_.time_unit); }

  void AddSystemCells(const KeyAverage& row, std::vector<std::string>* cells) const {
    const bool is_known = !row.system.is_unknown && !row.is_device;
    const auto add = [&](bool is_recorded, const std::string& text) {
      if (is_recorded) cells->push_back(is_known ? text : "--");
    };
    add(averages_.system.sched, Time(row.self_on_cpu_ns()));
    add(averages_.system.sched, Time(row.system.self_off_cpu_ns));
    add(averages_.system.calls, std::to_string(row.system.self_calls));
    add(averages_.system.faults, std::to_string(row.system.self_faults));
  }

  std::vector<std::string> Cells(const KeyAverage& row) const {
    const double total_us = Microseconds(averages_.self_cpu_time_total_ns);
    std::vector<std::string> cells = {CutName(ShownText(row.name), options_.max_name_column_width)};
    if (has_overload_names_) {
      cells.push_back(CutName(ShownText(row.overload_name), options_.max_name_column_width));
    }
    cells.push_back(FormatShare(Microseconds(row.self_cpu_time_total_ns), total_us));
    cells.push_back(Time(row.self_cpu_time_total_ns));
    cells.push_back(row.is_async ? "0"
                                 : FormatShare(Microseconds(row.cpu_time_total_ns), total_us));
    cells.push_back(Time(row.cpu_time_total_ns));
    cells.push_back(FormatTime(row.cpu_time_us(), options_.time_unit));
    AddSystemCells(row, &cells);
    if (has_device_time_) {
      cells.push_back(Time(row.self_device_time_total_ns));
      cells.push_back(FormatShare(Microseconds(row.self_device_time_total_ns),
                                  Microseconds(averages_.self_device_time_total_ns)));
      cells.push_back(Time(row.device_time_total_ns));
      cells.push_back(FormatTime(row.device_time_us(), options_.time_unit));
    }
    if (averages_.has_memory) {
      cells.push_back(FormatMemory(row.memory.cpu_bytes));
      cells.push_back(FormatMemory(row.memory.self_cpu_bytes));
    }
    if (has_device_memory_) {
      cells.push_back(FormatMemory(row.memory.device_bytes));
      cells.push_back(FormatMemory(row.memory.self_device_bytes));
    }
    cells.push_back(std::to_string(row.count));
    if (has_input_shapes_) cells.push_back(row.input_shapes.substr(0, shapes_width_));
    if (has_flops_) {
      const double flops = static_cast<double>(row.flops) * flops_scale_.factor;
      cells.push_back(row.flops == 0 ? "--" : Printf("%8.3f", flops));
    }
    // The stack is behind the FLOPs although its header is before theirs, as in torch 2.11.
    if (has_stacks()) cells.push_back(row.stack.empty() ? "" : SourceCell(row.stack.front()));
    return cells;
  }

  const KeyAverages& averages_;
  const TableOptions& options_;
  std::vector<const KeyAverage*> rows_;
  bool has_overload_names_ = false;
  bool has_device_time_ = false;
  bool has_device_memory_ = false;
  bool has_input_shapes_ = false;
  bool has_flops_ = false;
  FlopsScale flops_scale_;
  size_t name_width_ = 0;
  size_t shapes_width_ = 0;
  size_t source_width_ = 0;  // 0 = no row has a stack
};

}  // namespace

std::vector<std::string> TableSortKeys() {
  std::vector<std::string> keys;
  for (const SortKey& key : kSortKeys) keys.emplace_back(key.name);
  return keys;
}

absl::Status CheckTableOptions(const TableOptions& options) {
  if (!options.sort_by.empty() && FindSortKey(options.sort_by) == nullptr) {
    std::vector<std::string_view> names;
    for (const SortKey& key : kSortKeys) names.push_back(key.name);
    return Fail(ExitCode::kUsage, "--sort-by: " + NoneOf(options.sort_by, names));
  }
  const auto check = [](const char* column, std::optional<int> width, int least) {
    if (!width.has_value() || *width >= least) return absl::OkStatus();
    return Fail(ExitCode::kUsage, "a " + std::string(column) + " column of width " +
                                      std::to_string(*width) + " is too narrow; give at least " +
                                      std::to_string(least));
  };
  absl::Status status = check("name", options.max_name_column_width, kMinNameColumnWidth);
  status.Update(check("shapes", options.max_shapes_column_width, 1));
  status.Update(check("source", options.max_src_column_width, 1));
  return status;
}

absl::StatusOr<std::string> FormatTable(const KeyAverages& averages, const TableOptions& options) {
  if (absl::Status status = CheckTableOptions(options); !status.ok()) return status;
  if (averages.rows.empty()) return "";
  return TableFormatter(averages, options).Format();
}

std::vector<const KeyAverage*> ShownRows(const KeyAverages& averages, const TableOptions& options) {
  return TableFormatter(averages, options).Shown();
}

}  // namespace proftrace
