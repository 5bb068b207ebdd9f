#include "symbols/plan/file_facts.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "symbols/elf/elf_file.h"
#include "symbols/plan/known_plans.h"
#include "symbols/process/asked_files.h"
#include "symbols/process/cache_bytes.h"
#include "symbols/process/entry_questions.h"
#include "symbols/process/read_budget.h"
#include "symbols/process/target_entries.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/turns.h"

namespace proftrace {
namespace {

// Takes the place of a file's identity in facts that one process sends to another, where both know
// the file.
constexpr std::string_view kSent = "sent";
// The most bytes that are read of one file.
constexpr uint64_t kMostBytesOfFile = uint64_t{16} << 30;
// The analysis of a smaller file is so short that nobody is told of it.
constexpr uint64_t kLargeFileBytes = uint64_t{64} << 20;
constexpr int64_t kNsPerSecond = 1'000'000'000;

// Adds a gap where the file's budget was used up, and marks the facts as cut where that or the
// worker's budget was.
void NoteBudget(const ElfFile& file, ModuleFacts* facts) {
  if (file.is_cut()) facts->gaps.push_back({"what was not read of a library", file.WhyCut()});
  facts->is_cut |= file.is_cut() || !ReadBudget::PayAll(0);
}

// Analyses a file in the worker. Returns the bytes that the worker sends: whether the analysis was
// cut short, then the facts.
absl::StatusOr<std::string> AnalyseHere(const std::shared_ptr<const HeldFile>& held,
                                        int64_t longest_ns) {
  ReadBudget budget({.bytes = kMostBytesOfFile, .cpu_ns = longest_ns + kNsPerSecond});
  const ReadBudget::Scope scope(&budget);
  const auto file = ElfFile::Open(held);
  if (!file.ok()) return file.status();
  ModuleFacts facts = AnalyzeModule(file->get(), longest_ns);
  NoteBudget(**file, &facts);
  CacheWriter out;
  out.Number(static_cast<uint8_t>(facts.is_cut ? 1 : 0));
  out.Text(EncodeFacts(kSent, facts));
  return out.Take();
}

std::string Sent(const absl::StatusOr<ModuleFacts>& facts) {
  CacheWriter out;
  out.Number(static_cast<uint8_t>(facts.ok() && facts->is_cut ? 1 : 0));
  out.Number(static_cast<uint32_t>(ExitCodeOf(facts.status())));
  out.Text(facts.ok() ? "" : std::string(facts.status().message()));
  out.Text(facts.ok() ? EncodeFacts(kSent, *facts) : "");
  return out.Take();
}

}  // namespace

KeptFacts::KeptFacts(const PlanOptions& options)
    : on_analysis_(options.on_analysis),
      uses_known_plans_(options.uses_known_plans),
      cache_(options.cache_directory),
      analysed_(options.analysed),
      stop_(options.stop),
      longest_ns_(options.longest_analysis_ns),
      left_ns_(options.longest_reading_ns) {}

std::string KeptFacts::Known(const HeldFile& held, const std::string& build_id) const {
  auto facts = cache_.Load(held, build_id);
  if (!facts && uses_known_plans_) facts = FindKnownPlan(held, build_id);
  if (!facts && analysed_ != nullptr) facts = analysed_->Find(held.state());
  return facts ? Sent(*std::move(facts)) : std::string();
}

absl::StatusOr<ModuleFacts> KeptFacts::Analyse(const std::shared_ptr<const HeldFile>& held,
                                               int64_t longest_ns,
                                               std::atomic<int64_t>* cost_ns) const {
  WorkerOrder order;
  order.what = "analyses it";
  if (!held->is_remote()) order.keeps = {held->fd()};
  order.longest_s = std::max(longest_ns, int64_t{0}) / kNsPerSecond + 5;
  order.stop = stop_;
  const int64_t begin_ns = WorkerCpuNs();
  const absl::StatusOr<std::string> bytes = RunWorker(
      order,
      [&](WorkerChannel* channel) {
        AskForEntries(channel);
        return AnalyseHere(held, longest_ns);
      },
      [&](std::string_view question) { return AnswerForFile(*held, question); });
  *cost_ns += WorkerCpuNs() - begin_ns;
  if (!bytes.ok()) return bytes.status();
  CacheReader in(*bytes);
  const bool is_cut = in.Number<uint8_t>() != 0;
  std::optional<ModuleFacts> facts =
      DecodeFacts(in.Text(), kSent, static_cast<uint64_t>(held->state().bytes));
  if (!facts || !in.ok())
    return absl::DataLossError(
        "the worker's answer could not be read; this is a bug of proftrace: please report it");
  facts->is_cut = is_cut;
  return *std::move(facts);
}

void KeptFacts::TellOfAnalysis(const HeldFile& held, const std::string& build_id) const {
  const auto bytes = static_cast<uint64_t>(held.state().bytes);
  if (bytes >= kLargeFileBytes && on_analysis_) on_analysis_(build_id, bytes);
}

void KeptFacts::Keep(const std::shared_ptr<const HeldFile>& held, const std::string& build_id,
                     const absl::StatusOr<ModuleFacts>& facts) {
  // The facts of a file that was written to meanwhile are not kept.
  if (!facts.ok() || facts->is_cut || !held->IsUnchanged()) return;
  if (cache_.MayKeep(*held, build_id)) {
    cache_.Store(*held, build_id, *facts);
  } else if (analysed_ != nullptr) {
    analysed_->Add(held, *facts);
  }
}

std::string KeptFacts::Find(const std::shared_ptr<const HeldFile>& held,
                            const std::string& build_id) {
  const auto prepared = prepared_.find(held->state());
  if (prepared != prepared_.end()) return Sent(prepared->second.facts);
  if (std::string known = Known(*held, build_id); !known.empty()) return known;
  TellOfAnalysis(*held, build_id);
  std::atomic<int64_t> cost_ns = 0;
  const absl::StatusOr<ModuleFacts> facts =
      Analyse(held, std::min(longest_ns_, left_ns_), &cost_ns);
  left_ns_ -= cost_ns;
  Keep(held, build_id, facts);
  return Sent(facts);
}

void KeptFacts::Prepare(const std::vector<FactsWanted>& files) {
  std::vector<FactsWanted> wanted;
  for (const FactsWanted& file : files) {
    const FileState& state = file.file->state();
    const auto is_it = [&state](const FactsWanted& other) { return other.file->state() == state; };
    if (wanted.size() >= kMostPrepared || prepared_.contains(state) ||
        std::any_of(wanted.begin(), wanted.end(), is_it) ||
        !Known(*file.file, file.build_id).empty()) {
      continue;
    }
    wanted.push_back(file);
  }
  if (wanted.size() < 2) return;  // Find() does it
  // The largest takes longest, so it comes first.
  std::stable_sort(wanted.begin(), wanted.end(), [](const FactsWanted& a, const FactsWanted& b) {
    return a.file->state().bytes > b.file->state().bytes;
  });
  for (const FactsWanted& file : wanted) TellOfAnalysis(*file.file, file.build_id);
  std::vector<absl::StatusOr<ModuleFacts>> facts(wanted.size(), absl::UnknownError(""));
  std::atomic<int64_t> cost_ns = 0;
  const auto at_once = static_cast<int64_t>(std::min(wanted.size(), kMostSharingThreads));
  ShareTurns(wanted.size(), [&]() -> TurnWorker {
    return [&](size_t turn) {
      const int64_t left_ns = (left_ns_ - cost_ns) / at_once;
      facts[turn] = Analyse(wanted[turn].file, std::min(longest_ns_, left_ns), &cost_ns);
    };
  });
  left_ns_ -= cost_ns;
  for (size_t i = 0; i < wanted.size(); ++i) {
    Keep(wanted[i].file, wanted[i].build_id, facts[i]);
    const FileState state = wanted[i].file->state();
    prepared_.insert({state, {std::move(wanted[i].file), std::move(facts[i])}});
  }
}

void AskToPrepare(WorkerChannel* channel, const std::vector<FactsWanted>& files) {
  std::string question(1, static_cast<char>(EntryQuestion::kPrepare));
  for (const FactsWanted& wanted : files) {
    const FileState& state = wanted.file->state();
    const auto length = static_cast<uint16_t>(wanted.build_id.size());
    question.append(reinterpret_cast<const char*>(&state), sizeof(state));
    question.append(reinterpret_cast<const char*>(&length), sizeof(length));
    question.append(wanted.build_id, 0, length);
  }
  channel->Ask(question);
}

std::vector<std::pair<FileState, std::string>> FilesToPrepare(std::string_view question) {
  std::vector<std::pair<FileState, std::string>> files;
  while (files.size() < kMostPrepared) {
    FileState state;
    uint16_t length = 0;
    if (question.size() < sizeof(state) + sizeof(length)) return files;
    std::memcpy(&state, question.data(), sizeof(state));
    std::memcpy(&length, question.data() + sizeof(state), sizeof(length));
    question.remove_prefix(sizeof(state) + sizeof(length));
    files.emplace_back(state, question.substr(0, length));
    question.remove_prefix(std::min<size_t>(length, question.size()));
  }
  return files;
}

absl::StatusOr<std::optional<ModuleFacts>> AskForFacts(WorkerChannel* channel, const HeldFile& held,
                                                       const std::string& build_id, bool find) {
  std::string question(
      1, static_cast<char>(find ? EntryQuestion::kFacts : EntryQuestion::kKnownFacts));
  const FileState& state = held.state();
  question.append(reinterpret_cast<const char*>(&state), sizeof(state));
  question += build_id;
  const WorkerAnswer answer = channel->Ask(question);
  CacheReader in(answer.bytes);
  const uint32_t error = in.Number<uint32_t>();
  if (error == ESTALE && find) {
    return absl::UnavailableError("the process exchanges what it has mapped while it is read");
  }
  if (error != 0 || in.at_end()) return std::nullopt;
  const bool is_cut = in.Number<uint8_t>() != 0;
  const auto code = static_cast<ExitCode>(in.Number<uint32_t>());
  const std::string reason = in.Text();
  if (!reason.empty()) return Fail(code, reason);
  std::optional<ModuleFacts> facts =
      DecodeFacts(in.Text(), kSent, static_cast<uint64_t>(state.bytes));
  if (facts) facts->is_cut = is_cut;
  return facts;
}

}  // namespace proftrace
