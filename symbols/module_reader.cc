#include "symbols/module_reader.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

#include "symbols/elf_file.h"
#include "symbols/read_budget.h"
#include "userspace/base/clock.h"

namespace proftrace {
namespace {

// A process maps some hundred files; more than this is made up.
constexpr size_t kMaxFiles = 8192;
// A torch that is linked into a program makes it larger than this.
constexpr uint64_t kLeastStaticTorchBytes = uint64_t{8} << 20;

MemoryRange ZeroedData(const ElfFile& file, uint64_t load_bias) {
  const ElfSection* section = file.FindSection(".bss");
  if (section == nullptr) return {};
  return {load_bias + section->address, section->size};
}

// The path of the file as it is loaded. `opened`: how it was opened, which may be through a mapping
// that the job has made to read it and gives up at any moment.
std::string PathOfPlace(Pid pid, const MappedFile& mapped, const LoadedPlace& place,
                        const ElfFile& file, const std::string& opened) {
  MappedFile loaded = mapped;
  loaded.mappings = place.mappings;
  const auto again = OpenMappedFile(pid, loaded);
  struct stat status;
  const bool is_same = again.ok() && fstat(again->fd.get(), &status) == 0 &&
                       status.st_dev == file.status().st_dev &&
                       status.st_ino == file.status().st_ino;
  return is_same ? again->path : opened;
}

// What is missing where the file's budget, or the process', was used up.
void NoteBudget(const ElfFile& file, ModuleFacts* facts) {
  if (file.is_cut()) facts->gaps.push_back({"what was not read of a library", file.WhyCut()});
  facts->is_cut |= file.is_cut() || !ReadBudget::PayAll(0);
}

}  // namespace

bool RenewPaths(Pid pid, ModulePlan* module) {
  const auto mappings = ReadMaps(pid);
  if (!mappings.ok()) return false;
  for (const MappedFile& mapped : GroupByFile(*mappings)) {
    if (mapped.device != module->file.device || mapped.inode != module->file.inode) continue;
    auto opened = OpenMappedFile(pid, mapped);
    if (!opened.ok()) continue;
    const auto file = ElfFile::Open(std::move(opened->fd));
    if (!file.ok() || (*file)->build_id() != module->build_id) continue;
    const auto place = FindLoadedPlace(**file, mapped);
    if (!place || place->bias != module->load_bias) continue;
    module->open_path = PathOfPlace(pid, mapped, *place, **file, opened->path);
    module->mapped_path = MapFilesPath(pid, place->mappings.front());
    return true;
  }
  return false;
}

std::string FileName(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

size_t CountOperators(const ModuleFacts& facts) {
  return static_cast<size_t>(
      std::count_if(facts.functions.begin(), facts.functions.end(),
                    [](const auto& f) { return f.role == FunctionRole::kOperator; }));
}

ModuleReader::ModuleReader(Pid pid, const PlanOptions& options)
    : pid_(pid),
      cache_(options.cache_directory),
      deadline_ns_(ThreadCpuNs() + options.longest_reading_ns),
      longest_analysis_ns_(options.longest_analysis_ns) {}

std::vector<Module> ModuleReader::ReadAll(const std::vector<MappedFile>& files) {
  std::vector<Module> modules;
  size_t operators = 0;
  for (const bool full : {false, true}) {
    for (size_t i = 0; i < std::min(files.size(), kMaxFiles); ++i) {
      if (full && files[i].executable_bytes < kLeastStaticTorchBytes) continue;
      // The second round would find again what the first did.
      const bool is_known = std::any_of(modules.begin(), modules.end(), [&](const Module& known) {
        return known.mapped == &files[i];
      });
      if (is_known) continue;
      if (ThreadCpuNs() > deadline_ns_ || !ReadBudget::PayAll(0)) {
        is_cut_ = true;
        left_.push_back(&files[i]);
        continue;
      }
      auto module = Read(files[i], full);
      if (!module) continue;
      is_cut_ |= module->facts.is_cut;
      operators += CountOperators(module->facts);
      modules.push_back(*std::move(module));
    }
    if (operators > 0 || is_cut_) break;
  }
  return modules;
}

void ModuleReader::AddGaps(ProbePlan* plan) const {
  if (!unread_.empty()) {
    plan->gaps.push_back({"rows of libraries that could not be read", unread_});
  }
  if (left_.empty()) return;
  plan->gaps.push_back(
      {"rows of libraries that were not read",
       absl::StrCat("reading the files of PID ", Raw(pid_), " took too long: ", left_.size(),
                    " were left, the first of them ", FileName(left_.front()->path))});
}

void ModuleReader::NoteUnread(const MappedFile& mapped, const std::string& reason) {
  const std::string name = FileName(mapped.path);
  if (!unread_.empty() || name.find("torch") == std::string::npos) return;
  unread_ = absl::StrCat(name, ": ", reason);
}

std::optional<Module> ModuleReader::Read(const MappedFile& mapped, bool full) {
  auto opened = OpenMappedFile(pid_, mapped);
  if (!opened.ok()) return std::nullopt;
  auto file = ElfFile::Open(std::move(opened->fd));
  if (!file.ok()) {
    NoteUnread(mapped, std::string(file.status().message()));
    return std::nullopt;
  }
  const auto place = FindLoadedPlace(**file, mapped);
  if (!place) return std::nullopt;
  const std::pair<uint64_t, uint64_t> id((*file)->status().st_dev, (*file)->status().st_ino);
  if (read_.contains(id)) return std::nullopt;
  Module module;
  module.mapped = &mapped;
  module.open_path = PathOfPlace(pid_, mapped, *place, **file, opened->path);
  module.mapped_path = MapFilesPath(pid_, place->mappings.front());
  module.build_id = (*file)->build_id();
  module.load_bias = place->bias;
  module.zeroed_data = ZeroedData(**file, place->bias);
  if (auto facts = cache_.Load(**file)) {
    module.facts = *std::move(facts);
    module.from_cache = true;
    read_.insert(id);
    return module;
  }
  if (!MayContribute(**file, full)) {
    if ((*file)->is_cut()) NoteUnread(mapped, (*file)->WhyCut());
    return std::nullopt;
  }
  read_.insert(id);
  module.facts = AnalyzeModule(file->get(), longest_analysis_ns_);
  NoteBudget(**file, &module.facts);
  if (!module.facts.is_cut) cache_.Store(**file, module.facts);
  return module;
}

}  // namespace proftrace
