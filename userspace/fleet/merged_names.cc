#include "userspace/fleet/merged_names.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace proftrace {
namespace {

using nlohmann::json;

// The sort indices that Kineto gives GPUs and "Spans" (output_json.cpp).
constexpr int64_t kFirstGpuPlace = 5'000'000;
constexpr int64_t kSpansPlace = 536'870'912;

}  // namespace

std::string PlainText(std::string_view source) {
  if (source.find('\\') == std::string_view::npos) return std::string(source);
  const json parsed = json::parse("\"" + std::string(source) + "\"", nullptr, false);
  return parsed.is_string() ? parsed.get<std::string>() : std::string(source);
}

bool MergedNames::Take(const SourceEvent& event, int64_t pid, int64_t tid) {
  const bool is_of_process = event.name.starts_with("process_");
  if (!is_of_process && !event.name.starts_with("thread_")) return false;
  const json args = json::parse(event.args, nullptr, false);
  if (!args.is_object()) return false;
  const auto text = [&](const char* key) {
    const auto it = args.find(key);
    return it != args.end() && it->is_string() ? it->get<std::string>() : std::string();
  };
  Process& process = processes_[pid];
  if (event.name == "process_name") {
    process.name = text("name");
  } else if (event.name == "process_labels") {
    process.labels = text("labels");
  } else if (event.name == "thread_name") {
    process.threads[tid].name = text("name");
  } else if (event.name == "process_sort_index" || event.name == "thread_sort_index") {
    const auto it = args.find("sort_index");
    if (it == args.end() || !it->is_number_integer()) return true;
    (is_of_process ? process.sort_index : process.threads[tid].sort_index) = it->get<int64_t>();
  } else {
    return false;
  }
  return true;
}

void MergedNames::AddRow(int64_t pid, int64_t tid) {
  Process& process = processes_[pid];
  process.has_rows = true;
  process.threads[tid].has_rows = true;
}

void MergedNames::SetOriginal(int64_t pid, const SourceId& original) {
  std::string& text = processes_[pid].original;
  if (!text.empty()) return;
  const int64_t* number = std::get_if<int64_t>(&original);
  text =
      number != nullptr ? std::to_string(*number) : PlainText(std::get<std::string_view>(original));
}

int64_t PlaceInRank(const MergedNames::Process& process) {
  constexpr int64_t kGpus = 100;
  constexpr int64_t kLast = 999;
  const int64_t own = process.sort_index.value_or(0);
  if (own >= kSpansPlace) return kLast;
  if (own >= kFirstGpuPlace) return std::min(kGpus + (own - kFirstGpuPlace), kLast - 1);
  return 10;
}

}  // namespace proftrace
