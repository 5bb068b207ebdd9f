#include "symbols/plan/module_reader.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "symbols/elf/elf_file.h"
#include "symbols/plan/file_facts.h"
#include "symbols/process/read_budget.h"
#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

// A process maps some hundred files. Only a hostile one maps more than this.
constexpr size_t kMaxFiles = 8192;
// A program that has torch linked into it has more code than this.
constexpr uint64_t kLeastStaticTorchBytes = uint64_t{8} << 20;

MemoryRange ZeroedData(const ElfFile& file, uint64_t load_bias) {
  const ElfSection* section = file.FindSection(".bss");
  if (section == nullptr) return {};
  return {load_bias + section->address, section->size};
}

// Whether the begin of `mapping` is still mapped and belongs to the held file. The process may have
// exchanged the mapping since its maps were read.
bool IsMappingOf(Pid pid, const Mapping& mapping, const HeldFile& held) {
  const auto mappings = ReadMaps(pid);
  if (!mappings.ok()) return false;
  // The mapping may have been split, as where the protection of a part of it was changed.
  const auto now = std::find_if(mappings->begin(), mappings->end(), [&mapping](const Mapping& m) {
    return m.executable && m.device == mapping.device && m.inode == mapping.inode &&
           m.path == mapping.path && m.start <= mapping.start && mapping.start < m.end &&
           m.file_offset + (mapping.start - m.start) == mapping.file_offset;
  });
  if (now == mappings->end()) return false;
  // The file's numbers are read through the link in map_files, because maps shows others on btrfs,
  // and on overlayfs before Linux 6.8.
  const std::optional<FileState> there = StateOfMapping(pid, *now, held);
  if (there.has_value()) return *there == held.state();
  // Only some users may follow the link. For others the file was opened by its path and compared
  // with the mapped bytes.
  return errno == EPERM || errno == EACCES;
}

}  // namespace

bool RenewPath(Pid pid, ModulePlan* module) {
  const auto mappings = ReadMaps(pid);
  if (!mappings.ok() || module->held == nullptr) return false;
  for (const MappedFile& mapped : GroupByFile(*mappings)) {
    if (mapped.device != module->file.device || mapped.inode != module->file.inode) continue;
    auto opened = OpenMappedFile(pid, mapped);
    if (!opened.ok() || opened->file->state() != module->held->state()) continue;
    const auto file = ElfFile::Open(module->held);
    if (!file.ok()) continue;
    const auto place = FindLoadedPlace(**file, mapped);
    if (!place || place->bias != module->load_bias ||
        !IsMappingOf(pid, place->mappings.front(), *module->held)) {
      continue;
    }
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

ModuleReader::ModuleReader(Pid pid, const PlanOptions& options, WorkerChannel* channel)
    : pid_(pid),
      channel_(channel),
      deadline_ns_(ThreadCpuNs() + options.longest_reading_ns),
      has_collector_(options.python_gc) {}

std::vector<Module> ModuleReader::ReadAll(const std::vector<MappedFile>& files) {
  std::vector<Module> modules;
  size_t operators = 0;
  for (const bool full : {false, true}) {
    std::vector<Candidate> candidates;
    for (size_t i = 0; i < std::min(files.size(), kMaxFiles); ++i) {
      if (full && files[i].executable_bytes < kLeastStaticTorchBytes) continue;
      // Files that contributed in the first round are not read again in the second.
      const bool is_known = std::any_of(modules.begin(), modules.end(), [&](const Module& known) {
        return known.mapped == &files[i];
      });
      if (is_known) continue;
      if (ThreadCpuNs() > deadline_ns_ || !ReadBudget::PayAll(0)) {
        is_cut_ = true;
        left_.push_back(&files[i]);
        continue;
      }
      if (auto candidate = Look(files[i], full)) candidates.push_back(*std::move(candidate));
    }
    Prepare(candidates);
    for (Candidate& candidate : candidates) {
      auto module = Finish(std::move(candidate));
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
  if (!unopened_.ok()) {
    plan->gaps.push_back(
        {"rows of libraries that could not be opened", std::string(unopened_.message())});
  }
  if (left_.empty()) return;
  plan->gaps.push_back(
      {"rows of libraries that were not read",
       absl::StrCat("reading the files of PID ", Raw(pid_), " took too long: ", left_.size(),
                    " were left, the first of them ", FileName(left_.front()->path))});
}

void ModuleReader::NoteUnread(const MappedFile& mapped, const std::string& reason) {
  const std::string name = FileName(mapped.path);
  if (name.find("torch") != std::string::npos) NoteLost(name, reason);
}

void ModuleReader::NoteLost(const std::string& name, const std::string& reason) {
  if (unread_.empty()) unread_ = absl::StrCat(name, ": ", reason);
}

void ModuleReader::NoteUnopened(const MappedFile& mapped, const absl::Status& status) {
  if (ExitCodeOf(status) == ExitCode::kBug) return;  // the file or the process is gone
  const bool is_torch = FileName(mapped.path).find("torch") != std::string::npos;
  if (unopened_.ok() || (is_torch && !std::exchange(is_torch_unopened_, true))) unopened_ = status;
}

std::optional<ModuleReader::Candidate> ModuleReader::Look(const MappedFile& mapped, bool full) {
  auto opened = OpenMappedFile(pid_, mapped);
  if (!opened.ok()) {
    NoteUnopened(mapped, opened.status());
    return std::nullopt;
  }
  const std::shared_ptr<const HeldFile> held = std::move(opened->file);
  auto file = ElfFile::Open(held);
  if (!file.ok()) {
    // The file looks damaged only because its file system has stopped to answer.
    if (held->is_remote() && !held->IsUnchanged()) {
      NoteUnopened(mapped,
                   Fail(ExitCode::kHostUnfit, absl::StrCat(mapped.path,
                                                           ": its file system does not answer any "
                                                           "more; record again when it does")));
    } else {
      NoteUnread(mapped, std::string(file.status().message()));
    }
    return std::nullopt;
  }
  const auto place = FindLoadedPlace(**file, mapped);
  if (!place) return std::nullopt;
  const std::pair<uint64_t, uint64_t> id((*file)->status().st_dev, (*file)->status().st_ino);
  if (read_.contains(id)) return std::nullopt;
  Module module;
  module.mapped = &mapped;
  module.held = held;
  module.mapped_path = MapFilesPath(pid_, place->mappings.front());
  module.build_id = (*file)->build_id();
  module.segments = (*file)->segments();
  module.load_bias = place->bias;
  module.zeroed_data = ZeroedData(**file, place->bias);
  auto facts = AskForFacts(channel_, *held, module.build_id, /*find=*/false);
  const bool is_known = facts.ok() && facts->has_value();
  // The facts may be those of another build of the same code (known_plans.h).
  if (is_known && (*facts)->dispatcher_slot == 0) {
    (*facts)->dispatcher_slot = FindDispatcherSlot(**file);
  }
  if (!is_known && !MayContribute(**file, full, has_collector_)) {
    if ((*file)->is_cut()) NoteUnread(mapped, (*file)->WhyCut());
    return std::nullopt;
  }
  if (!IsMappingOf(pid_, place->mappings.front(), *held)) {
    NoteUnread(mapped, "the process exchanges what it has mapped while it is read");
    return std::nullopt;
  }
  read_.insert(id);
  module.from_cache = is_known;
  return Candidate{std::move(module), std::move(facts)};
}

void ModuleReader::Prepare(const std::vector<Candidate>& candidates) {
  std::vector<FactsWanted> wanted;
  for (const auto& [module, facts] : candidates) {
    if (!module.from_cache) wanted.push_back({module.held, module.build_id});
  }
  if (wanted.size() > 1) AskToPrepare(channel_, wanted);
}

std::optional<Module> ModuleReader::Finish(Candidate candidate) {
  auto& [module, facts] = candidate;
  if (!module.from_cache) {
    facts = AskForFacts(channel_, *module.held, module.build_id, /*find=*/true);
  }
  if (!facts.ok()) {
    const std::string reason(facts.status().message());
    const std::string& path = module.mapped->path;
    if (ExitCodeOf(facts.status()) == ExitCode::kHostUnfit) {
      NoteUnopened(*module.mapped, Fail(ExitCode::kHostUnfit, absl::StrCat(path, ": ", reason)));
    } else {
      NoteLost(FileName(path), reason);
    }
    return std::nullopt;
  }
  if (!facts->has_value()) return std::nullopt;
  module.facts = **std::move(facts);
  return std::move(module);
}

}  // namespace proftrace
