#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "symbols/plan/process.h"
#include "userspace/base/shown_text.h"
#include "userspace/base/text.h"
#include "userspace/cli/commands.h"
#include "userspace/cli/json_schema.h"
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

// Returns the user's name by /etc/passwd, else the number. Other sources of names cannot be asked,
// because this program is linked statically.
std::string UserName(uint32_t uid) {
  std::ifstream file("/etc/passwd");
  const std::string number = std::to_string(uid);
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string_view> fields = SplitText(line, ":", /*skip_empty=*/false);
    if (fields.size() > 2 && fields[2] == number) return std::string(fields[0]);
  }
  return number;
}

// Returns the numbers of the GPUs whose device files the process has open, ascending.
std::vector<uint32_t> GpusOf(Pid pid) {
  constexpr std::string_view kDevice = "/dev/nvidia";
  std::set<uint32_t> gpus;
  std::error_code error;
  const std::string folder = "/proc/" + std::to_string(Raw(pid)) + "/fd";
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code gone;
    const std::string file = std::filesystem::read_symlink(entry->path(), gone).string();
    std::string_view rest = file;
    if (!ConsumeText(&rest, kDevice)) continue;
    if (const std::optional<uint32_t> gpu = ParseNumber<uint32_t>(rest)) gpus.insert(*gpu);
  }
  return {gpus.begin(), gpus.end()};
}

// Returns the Kubernetes pod that its environment names, else the beginning of the id that Docker,
// containerd, CRI-O and Podman put into the path of its control group (64 hexadecimal digits);
// empty where none is known.
std::string ContainerOf(const ProcessInfo& info) {
  constexpr size_t kIdLength = 64;
  constexpr size_t kShownLength = 12;  // as in `docker ps`
  if (!info.job.kubernetes_pod.empty()) return info.job.kubernetes_pod;
  std::string id;
  for (const std::string_view word : SplitText(info.control_group, "/-.:", /*skip_empty=*/true)) {
    const bool is_id = word.size() == kIdLength &&
                       word.find_first_not_of("0123456789abcdef") == std::string_view::npos;
    // The last one is that of the innermost container.
    if (is_id) id = word.substr(0, kShownLength);
  }
  return id;
}

std::string GpuText(const std::vector<uint32_t>& gpus) {
  std::string text;
  for (const uint32_t gpu : gpus) text += (text.empty() ? "" : ",") + std::to_string(gpu);
  return text.empty() ? "-" : text;
}

json ToJson(const ProcessInfo& info) {
  return {{"pid", Raw(info.pid)},
          {"ppid", Raw(info.parent)},
          {"comm", info.comm},
          {"exe", info.exe},
          {"cmdline", info.cmdline},
          {"uid", info.user_id},
          {"user", UserName(info.user_id)},
          {"threads", info.threads},
          {"python_version", info.python_version},
          {"torch_version", info.torch_version},
          {"cuda_version", info.cuda_version},
          {"rank", info.rank.has_value() ? json(*info.rank) : json()},
          {"world_size", info.world_size.has_value() ? json(*info.world_size) : json()},
          {"gpus", GpusOf(info.pid)},
          {"container", ContainerOf(info)}};
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
  Print("%8s  %-16s %-10s %4s %-6s %-12s %-14s %-7s %7s  %s\n", "PID", "NAME", "USER", "RANK",
        "GPU", "CONTAINER", "TORCH", "PYTHON", "THREADS", "COMMAND");
  for (const ProcessInfo& info : processes) {
    const std::string container = ContainerOf(info);
    Print("%8u  %-16s %-10s %4s %-6s %-12s %-14s %-7s %7u  %.100s\n", Raw(info.pid),
          ShownText(info.comm).c_str(), ShownText(UserName(info.user_id)).c_str(),
          info.rank.has_value() ? std::to_string(*info.rank).c_str() : "-",
          GpuText(GpusOf(info.pid)).c_str(), container.empty() ? "-" : ShownText(container).c_str(),
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
  list->add_flag("--json", *as_json, "prints one JSON document");
  AddJsonSchema(list);
  list->callback([as_json, action] { *action = [as_json] { return RunList(*as_json); }; });
}

}  // namespace proftrace
