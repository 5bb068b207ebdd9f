#include "symbols/plan/torch_copies.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "symbols/plan/reduced_plan.h"

namespace proftrace {
namespace {

constexpr std::string_view kOperators = "libtorch_cpu";
constexpr std::string_view kBinding = "libtorch_python";

std::string_view DirectoryOf(std::string_view path) { return path.substr(0, path.rfind('/') + 1); }

std::string_view NameOf(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool IsTorchs(std::string_view path) {
  return NameOf(path).starts_with("libtorch") || NameOf(path).starts_with("libc10");
}

// Returns how often the file is loaded: each time its executable parts are mapped once.
size_t LoadCount(const MappedFile& file) {
  size_t count = 0;
  const Mapping* first = nullptr;
  for (const Mapping& mapping : file.mappings) {
    if (!mapping.executable) continue;
    if (first == nullptr) first = &mapping;
    count += mapping.file_offset == first->file_offset;
  }
  return count;
}

}  // namespace

std::vector<FileId> IdsOf(const MappedFile& file) {
  std::vector<FileId> ids;
  for (uint32_t time = 0; time < LoadCount(file); ++time) {
    ids.push_back(FileId{file.device, file.inode, time});
  }
  return ids;
}

TorchChoice ChooseTorch(std::vector<MappedFile> files) {
  TorchChoice choice;
  std::set<std::string> with_operators;
  std::set<std::string> with_binding;
  for (const MappedFile& file : files) {
    const std::vector<FileId> ids = IdsOf(file);
    choice.all.insert(choice.all.end(), ids.begin(), ids.end());
    const std::string directory(DirectoryOf(file.path));
    if (NameOf(file.path).starts_with(kBinding)) with_binding.insert(directory);
    if (!NameOf(file.path).starts_with(kOperators)) continue;
    with_operators.insert(directory);
    if (LoadCount(file) > 1) choice.repeated = file.path;
  }
  const auto chosen = std::find_if(
      with_operators.begin(), with_operators.end(),
      [&with_binding](const std::string& directory) { return with_binding.contains(directory); });
  if (with_operators.size() > 1) {
    with_operators.erase(chosen != with_operators.end() ? chosen : with_operators.begin());
    for (const MappedFile& file : files) {
      const std::string directory(DirectoryOf(file.path));
      if (!with_operators.contains(directory)) continue;
      if (NameOf(file.path).starts_with(kOperators)) choice.others.push_back(file.path);
    }
    std::erase_if(files, [&with_operators](const MappedFile& file) {
      return IsTorchs(file.path) && with_operators.contains(std::string(DirectoryOf(file.path)));
    });
  }
  choice.files = std::move(files);
  return choice;
}

bool HasRepeatedTorch(Pid pid) {
  const auto mappings = ReadMaps(pid);
  return mappings.ok() && !ChooseTorch(GroupByFile(*mappings)).repeated.empty();
}

void ApplyChoice(const TorchChoice& choice, ProbePlan* plan) {
  plan->files.insert(choice.all.begin(), choice.all.end());
  for (const std::string& path : choice.others) {
    plan->gaps.push_back({"a second PyTorch in the process",
                          absl::StrCat("operators and memory of ", path, " are not recorded")});
  }
  if (choice.repeated.empty()) return;
  plan->autograd.reset();
  plan->gaps.push_back(
      {"sequence numbers of forward rows",
       absl::StrCat(choice.repeated,
                    " is loaded more than once, and each copy counts for itself")});
  if (plan->has_input_probes) {
    RemoveInputs(absl::StrCat(choice.repeated, " is loaded more than once"), plan);
  }
}

}  // namespace proftrace
