#include <memory>
#include <nlohmann/json.hpp>

#include "symbols/plan/process.h"
#include "userspace/base/shown_text.h"
#include "userspace/cli/commands.h"
#include "userspace/cli/say.h"

namespace proftrace {
namespace {

using nlohmann::json;

std::string JoinCommand(const ProcessInfo& info) {
  std::string text;
  for (const std::string& argument : info.cmdline) text += (text.empty() ? "" : " ") + argument;
  for (char& c : text) c = static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return text;
}

json ToJson(const ProcessInfo& info) {
  return {{"pid", Raw(info.pid)},
          {"ppid", Raw(info.parent)},
          {"comm", info.comm},
          {"exe", info.exe},
          {"cmdline", info.cmdline},
          {"threads", info.threads},
          {"python_version", info.python_version},
          {"torch_version", info.torch_version},
          {"cuda_version", info.cuda_version},
          {"rank", info.rank.has_value() ? json(*info.rank) : json()},
          {"world_size", info.world_size.has_value() ? json(*info.world_size) : json()}};
}

absl::Status RunList(bool as_json) {
  const std::vector<ProcessInfo> processes = ListTorchProcesses();
  if (as_json) {
    json rows = json::array();
    for (const ProcessInfo& info : processes) rows.push_back(ToJson(info));
    PrintDocument(rows);
    return absl::OkStatus();
  }
  if (processes.empty()) {
    Print("no running process with PyTorch is visible to this user\n");
    return absl::OkStatus();
  }
  Print("%8s  %-16s %-14s %-7s %7s  %s\n", "PID", "NAME", "TORCH", "PYTHON", "THREADS", "COMMAND");
  for (const ProcessInfo& info : processes) {
    Print("%8u  %-16s %-14s %-7s %7u  %.100s\n", Raw(info.pid), ShownText(info.comm).c_str(),
          ShownText(info.torch_version).c_str(), ShownText(info.python_version).c_str(),
          info.threads, ShownText(JoinCommand(info)).c_str());
  }
  return absl::OkStatus();
}

}  // namespace

void AddListCommand(CLI::App& app, Action* action) {
  auto as_json = std::make_shared<bool>(false);
  CLI::App* list = app.add_subcommand(
      "list", "Show the running processes that have loaded PyTorch.\nExample: sudo proftrace list");
  list->add_flag("--json", *as_json, "as one JSON document");
  list->callback([as_json, action] { *action = [as_json] { return RunList(*as_json); }; });
}

}  // namespace proftrace
