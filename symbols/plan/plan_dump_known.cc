#include "symbols/plan/plan_dump_known.h"

#include <fcntl.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "symbols/elf/elf_file.h"
#include "symbols/plan/known_plans.h"
#include "symbols/plan/plan_cache.h"
#include "symbols/process/held_file.h"
#include "symbols/torch/module_analysis.h"

namespace proftrace {
namespace {

constexpr int kNotShipped = 77;

struct Library {
  std::shared_ptr<const HeldFile> held;
  std::string build_id;
  ModuleFacts facts;
  uint64_t dispatcher_slot = 0;
};

std::optional<Library> Analyse(const char* path) {
  Library library;
  library.held = HeldFile::Hold(UniqueFd(open(path, O_RDONLY | O_CLOEXEC)));
  if (library.held == nullptr) {
    std::fprintf(stderr, "plan_dump: %s cannot be opened\n", path);
    return std::nullopt;
  }
  auto file = ElfFile::Open(library.held);
  if (!file.ok()) {
    std::fprintf(stderr, "plan_dump: %s: %s\n", path, std::string(file.status().message()).c_str());
    return std::nullopt;
  }
  library.build_id = (*file)->build_id();
  library.facts = AnalyzeModule(file->get());
  library.dispatcher_slot = FindDispatcherSlot(**file);
  return library;
}

}  // namespace

int WriteKnownPlan(const char* library) {
  const std::optional<Library> analysed = Analyse(library);
  if (!analysed.has_value()) return 1;
  if (analysed->build_id.empty() || analysed->facts.is_cut) {
    std::fprintf(stderr, "plan_dump: %s has no build-id, or takes too long\n", library);
    return 1;
  }
  const std::string entry = MakeKnownPlan(*analysed->held, analysed->build_id, analysed->facts);
  const bool is_written =
      !entry.empty() && std::fwrite(entry.data(), 1, entry.size(), stdout) == entry.size();
  return is_written && std::fflush(stdout) == 0 ? 0 : 1;
}

int CheckKnownPlan(const char* library) {
  const std::optional<Library> analysed = Analyse(library);
  if (!analysed.has_value()) return 1;
  auto known = FindKnownPlan(*analysed->held, analysed->build_id);
  if (!known.has_value()) {
    std::printf("%s, build %s: no plan is shipped for this analysis (version %u)\n", library,
                analysed->build_id.c_str(), kAnalysisVersion);
    return kNotShipped;
  }
  // As ModuleReader does.
  if (known->dispatcher_slot == 0) known->dispatcher_slot = analysed->dispatcher_slot;
  const bool is_same = EncodeFacts("", *known) == EncodeFacts("", analysed->facts);
  std::printf("%s, build %s: the plan that is shipped %s\n", library, analysed->build_id.c_str(),
              is_same ? "is what the analysis finds"
                      : "differs from what the analysis finds: raise kAnalysisVersion and run "
                        "scripts/make-known-plans.py");
  return is_same ? 0 : 1;
}

}  // namespace proftrace
