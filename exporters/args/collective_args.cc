#include "exporters/args/collective_args.h"

#include <optional>

#include "exporters/args/keyword_args.h"

namespace proftrace {

void AddCollectiveArgs(const Collective& collective, ArgsText* args) {
  const auto number = [args](std::string_view key, const std::optional<int64_t>& value) {
    if (value.has_value()) args->Number(key, *value);
  };
  args->Text("Collective name", collective.name);
  number("In msg nelems", collective.in_elements);
  number("Out msg nelems", collective.out_elements);
  number("Group size", collective.group_size);
  if (!collective.type.empty()) args->Text("dtype", collective.type);
  if (!collective.in_split.empty() && !collective.out_split.empty()) {
    args->Text("In split size", collective.in_split);
    args->Text("Out split size", collective.out_split);
  }
  if (!collective.group.empty()) {
    args->Text("Process Group Name", collective.group);
    if (!collective.group_description.empty()) {
      args->Text("Process Group Description", collective.group_description);
    }
  }
  if (!collective.ranks.empty()) args->Text("Process Group Ranks", collective.ranks);
  number("Rank", collective.rank);
  number("Src Rank", collective.source);
  number("Dst Rank", collective.destination);
  number("Seq", collective.sequence);
  if (collective.is_p2p.has_value()) args->Bool("Is P2P", *collective.is_p2p);
}

namespace {

void AddWorkArgs(const WorkFacts& facts, ArgsText* args) {
  const auto number = [args](std::string_view key, const std::optional<int64_t>& value) {
    if (value.has_value()) args->Number(key, *value);
  };
  number("In msg nelems", facts.in_elements);
  number("Out msg nelems", facts.out_elements);
  if (!facts.type.empty()) args->Text("dtype", facts.type);
  number("Rank", facts.rank);
  number("Src Rank", facts.source);
  number("Dst Rank", facts.destination);
}

}  // namespace

std::string RowKeywordArgs(const Timeline& timeline, SpanId row, const OperatorInputs& inputs) {
  const std::optional<Collective> collective = CollectiveOfRow(timeline, row, "");
  ArgsText args;
  if (!collective.has_value()) {
    args.Members(KeywordArgs(inputs.keywords));
    AddWorkArgs(FactsOfWork(timeline, row), &args);
    return args.Take();
  }
  AddCollectiveArgs(*collective, &args);
  // torch writes these two only for rows, not for kernels.
  if (collective->first_rank && collective->stride) {
    args.Number("Global rank start", *collective->first_rank);
    args.Number("Global rank stride", *collective->stride);
  }
  return args.Take();
}

}  // namespace proftrace
