#include "userspace/collectives/collective_rows.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

#include "userspace/base/text.h"
#include "userspace/collectives/json_text.h"
#include "userspace/model/torch_rules.h"

namespace proftrace {
namespace {

constexpr std::string_view kParamComms = "record_param_comms";
// The number of threads on which gloo runs the works of a group (ProcessGroupGloo::Options).
constexpr size_t kThreadsOfGroup = 2;
constexpr int64_t kHighestRank = std::numeric_limits<int32_t>::max();

// Counts the tensors without dimensions among the inputs, which have one element each: their shape
// is an empty list, as that of an input that is no tensor, but their type is a type of elements.
int64_t CountOfScalarTensors(std::string_view dims, std::string_view types) {
  std::vector<std::string_view> names = SplitText(types, "[]", /*skip_empty=*/true);
  if (names.empty()) return 0;
  names = SplitText(names.front(), ",", /*skip_empty=*/false);
  int64_t count = 0;
  size_t input = 0;
  int depth = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == ']') --depth;
    if (dims[i] != '[' || ++depth != 2) continue;
    const std::string_view name = input < names.size() ? StripBlanks(names[input]) : "";
    const bool is_type = name.size() > 2 && FindElementType(name.substr(1, name.size() - 2));
    if (i + 1 < dims.size() && dims[i + 1] == ']' && is_type) ++count;
    ++input;
  }
  return count;
}

// Adds up the elements of the tensors in "Input Dims", as [[5], [2, 3]] or, where inputs are lists
// of tensors, [[[5]], …]. Returns nullopt where there is no tensor.
std::optional<int64_t> ElementsOfDims(std::string_view dims, std::string_view types) {
  std::optional<int64_t> sum;
  if (const int64_t scalars = CountOfScalarTensors(dims, types); scalars > 0) sum = scalars;
  for (size_t at = 0; at < dims.size();) {
    // An innermost list of numbers is a shape. An empty list stands for an input that is not a
    // tensor.
    const size_t open = dims.find('[', at);
    if (open == std::string_view::npos) break;
    const size_t end = dims.find_first_of("[]", open + 1);
    if (end == std::string_view::npos) break;
    at = end;
    if (dims[end] == '[') continue;
    const std::string_view shape = dims.substr(open + 1, end - open - 1);
    int64_t elements = 1;
    bool is_shape = false;
    for (const std::string_view part : SplitText(shape, ", \n\r\t", /*skip_empty=*/true)) {
      const std::optional<int64_t> size = ParseNumber<int64_t>(part);
      if (!size || *size < 0 || __builtin_mul_overflow(elements, *size, &elements)) {
        return std::nullopt;
      }
      is_shape = true;
    }
    if (!is_shape) continue;
    int64_t all = 0;
    if (__builtin_add_overflow(sum.value_or(0), elements, &all)) return std::nullopt;
    sum = all;
  }
  return sum;
}

// Returns the type of the first input; null where it is no tensor.
const ElementType* FirstType(std::string_view types) {
  const size_t end = types.find('"', 2);
  if (!types.starts_with("[\"") || end == std::string_view::npos) return nullptr;
  return FindElementType(types.substr(2, end - 2));
}

// Returns whether the list of split sizes has a part without elements.
bool HasZero(std::string_view split) {
  for (const std::string_view part : SplitText(split, "\"[], ", /*skip_empty=*/true)) {
    if (part == "0") return true;
  }
  return false;
}

std::string TextOfValue(std::string_view value) {
  const auto text = JsonStringSource(value);
  return text ? UnescapedJson(*text) : std::string(value);
}

std::optional<int64_t> BytesOf(const std::optional<int64_t>& elements, const ElementType* type) {
  int64_t bytes = 0;
  if (!elements || type == nullptr || __builtin_mul_overflow(*elements, type->bytes, &bytes)) {
    return std::nullopt;
  }
  return bytes;
}

std::optional<int64_t> TidOf(const SourceId& id) {
  if (const auto* number = std::get_if<int64_t>(&id)) return *number;
  return std::nullopt;
}

std::string IdText(const SourceId& id) {
  if (const auto* number = std::get_if<int64_t>(&id)) return std::to_string(*number);
  return "\"" + std::string(std::get<std::string_view>(id));
}

}  // namespace

int64_t CollectiveRows::KeyOf(GroupKey key) {
  const auto [at, is_new] = key_numbers_.try_emplace(key, static_cast<int64_t>(keys_.size()));
  if (is_new) {
    keys_.push_back(std::move(key));
    descriptions_.emplace_back();
  }
  return at->second;
}

std::optional<CollectiveRows::Facts> CollectiveRows::FactsOf(std::string_view args,
                                                             std::string_view name) {
  Facts facts;
  GroupKey key;
  std::optional<CollectiveFamily> family;
  std::optional<int64_t> source;
  std::optional<int64_t> destination;
  std::string description;
  std::string_view dims;
  std::string_view types;
  bool has_group = false;
  ForEachJsonMember(args, [&](std::string_view member, std::string_view value) {
    if (member == "Collective name") {
      family = CollectiveFamilyOf(TextOfValue(value));
    } else if (member == "In msg nelems") {
      facts.in_elements = JsonInteger(value);
    } else if (member == "Out msg nelems") {
      facts.out_elements = JsonInteger(value);
    } else if (member == "Group size") {
      key.size = JsonInteger(value).value_or(0);
    } else if (member == "dtype") {
      facts.type = FindElementType(TextOfValue(value));
    } else if (member == "Process Group Name") {
      key.name = TextOfValue(value);
      has_group = true;
    } else if (member == "Process Group Description") {
      description = TextOfValue(value);
    } else if (member == "Process Group Ranks") {
      key.ranks = TextOfValue(value);
      has_group = true;
    } else if (member == "Rank") {
      facts.rank = JsonInteger(value);
    } else if (member == "Src Rank") {
      source = JsonInteger(value);
    } else if (member == "Dst Rank") {
      destination = JsonInteger(value);
    } else if (member == "Seq" || member == "seq") {
      facts.sequence = JsonInteger(value);
    } else if (member == "In split size" || member == "Out split size") {
      facts.has_empty_part = facts.has_empty_part || HasZero(value);
    } else if (member == "Input type") {
      types = value;
    } else if (member == "Input Dims") {
      dims = value;
    }
  });
  if (facts.type == nullptr) facts.type = FirstType(types);
  if (!facts.in_elements) facts.in_elements = ElementsOfDims(dims, types);
  if (!family) family = CollectiveFamilyOf(name);
  if (!family) return std::nullopt;
  facts.family = *family;
  if (*family == CollectiveFamily::kSend) facts.peer = destination;
  if (*family == CollectiveFamily::kRecv) facts.peer = source;
  if (has_group || key.size > 0) {
    facts.key = KeyOf(std::move(key));
    if (!description.empty()) descriptions_[static_cast<size_t>(facts.key)] = description;
  }
  return facts;
}

void CollectiveRows::Take(const SourceEvent& event) {
  if (event.phase == 'e') {
    // This is the end of a work that was written as a pair of asynchronous events.
    if (open_works_.empty() || !event.id || !event.begin_ns) return;
    const auto at = open_works_.find(std::string(event.name) + IdText(*event.id));
    if (at == open_works_.end()) return;
    rows_[at->second].end_ns = std::max(*event.begin_ns, rows_[at->second].begin_ns);
    open_works_.erase(at);
    return;
  }
  if ((event.phase != 'X' && event.phase != 'b') || !event.begin_ns) return;
  if (event.name.starts_with("gloo:")) {
    if (const auto family = CollectiveFamilyOf(event.name)) TakeWork(event, *family);
    return;
  }
  if (event.name.starts_with("c10d::")) {
    if (const auto family = CollectiveFamilyOf(event.name)) TakeCall(event, *family);
    return;
  }
  const bool is_host = event.name == kParamComms;
  const bool is_kernel = event.category == "kernel" || event.category == "Kernel";
  if (!is_host && !is_kernel) return;
  const bool has_facts = Contains(event.args, "\"Collective name\"");
  if (!has_facts && !(is_kernel && IsCommunicationKernel(event.name))) return;
  Row row;
  row.place = is_host ? CallPlace::kHost : CallPlace::kKernel;
  row.begin_ns = *event.begin_ns;
  row.end_ns = row.begin_ns + event.duration_ns;
  ForEachJsonMember(event.args, [&row](std::string_view key, std::string_view value) {
    if (key == "External id") row.external_id = JsonInteger(value);
    if (key == "device") row.device = JsonInteger(value);
    if (key == "stream") row.stream = JsonInteger(value);
  });
  if (has_facts) {
    row.facts = FactsOf(event.args, "");
    if (!row.facts) return;
  }
  rows_.push_back(std::move(row));
}

void CollectiveRows::TakeWork(const SourceEvent& event, CollectiveFamily family) {
  Row row;
  row.place = CallPlace::kGloo;
  row.begin_ns = *event.begin_ns;
  row.end_ns = row.begin_ns + event.duration_ns;
  row.tid = TidOf(event.tid).value_or(-1);
  row.facts = FactsOf(event.args, event.name);
  if (!row.facts) return;
  row.facts->family = family;
  if (event.phase == 'b' && event.id) {
    open_works_[std::string(event.name) + IdText(*event.id)] = rows_.size();
  }
  rows_.push_back(std::move(row));
}

void CollectiveRows::TakeCall(const SourceEvent& event, CollectiveFamily family) {
  // The place of the rank among the operator's arguments (torch/csrc/distributed/c10d/Ops.cpp):
  //     broadcast_(tensors, group, root, …)
  //     reduce_(tensors, group, how, root, …)
  //     gather_(outputs, inputs, group, root, …)
  //     send(tensors, group, peer, …)
  size_t place = 2;
  if (HasRoot(family) && family != CollectiveFamily::kBroadcast) place = 3;
  if (!HasRoot(family) && !IsMessage(family)) return;
  ForEachJsonMember(event.args, [&](std::string_view key, std::string_view value) {
    if (key != "Concrete Inputs") return;
    // ["", "", "0", …]: no argument before the rank has a comma in it.
    const std::vector<std::string_view> inputs = SplitText(value, ",", /*skip_empty=*/false);
    if (inputs.size() <= place) return;
    const auto rank = JsonInteger(StripBlanks(inputs[place]));
    if (rank && *rank >= 0) calls_[family].push_back({*event.begin_ns, *rank});
  });
}

// Joins each kernel with the row that launched it. The kernel was asked for when that row began,
// and a kernel whose own args name no collective takes the facts of that row.
void CollectiveRows::JoinKernels() {
  absl::flat_hash_map<int64_t, size_t> hosts;
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (rows_[i].place == CallPlace::kHost && rows_[i].external_id) {
      hosts.try_emplace(*rows_[i].external_id, i);
    }
  }
  for (Row& row : rows_) {
    if (row.place != CallPlace::kKernel || !row.external_id) continue;
    const auto at = hosts.find(*row.external_id);
    if (at == hosts.end()) continue;
    row.launch_ns = rows_[at->second].begin_ns;
    if (!row.facts) row.facts = rows_[at->second].facts;
  }
}

// Finds root or peer of gloo's works, by the calls of c10d. Where all calls of a family name the
// same root, all works have it. Otherwise the n-th work of a family belongs to the n-th call, where
// there are as many of both: this needs one group, because works of several groups may overtake
// each other, but not messages (send, recv), which begin where they are called.
void CollectiveRows::FindRootsOfWorks(bool is_one_group) {
  std::map<CollectiveFamily, std::vector<Row*>> works;
  for (Row& row : rows_) {
    if (row.place == CallPlace::kGloo && !row.facts->rank) works[row.facts->family].push_back(&row);
  }
  for (auto& [family, calls] : calls_) {
    std::vector<Row*>& rows = works[family];
    const bool is_one_rank =
        HasRoot(family) &&
        std::all_of(calls.begin(), calls.end(),
                    [first = calls.front().rank](const Call& call) { return call.rank == first; });
    if (is_one_rank) {
      for (Row* row : rows) row->facts->rank = calls.front().rank;
      continue;
    }
    if ((!is_one_group && !IsMessage(family)) || rows.size() != calls.size()) continue;
    const auto by_begin = [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; };
    std::stable_sort(calls.begin(), calls.end(), by_begin);
    std::stable_sort(rows.begin(), rows.end(),
                     [](const Row* a, const Row* b) { return a->begin_ns < b->begin_ns; });
    bool is_in_order = true;
    for (size_t i = 0; i < rows.size(); ++i) {
      is_in_order = is_in_order && calls[i].begin_ns <= rows[i]->end_ns;
    }
    for (size_t i = 0; is_in_order && i < rows.size(); ++i) rows[i]->facts->rank = calls[i].rank;
  }
}

// Finds the groups of gloo's works, whose rows name none. One group leaves no choice. Several
// groups have two threads each, whose order is that of the groups, because a group makes its
// threads when it is made.
void CollectiveRows::FindGroupsOfWorks(const JobFacts& job, SourceFacts* facts) {
  std::set<int64_t> threads;
  uint64_t without = 0;
  for (const Row& row : rows_) {
    if (row.place != CallPlace::kGloo || row.facts->key != kNoGroup) continue;
    ++without;
    // Messages are awaited on the thread that calls, which tells nothing about groups.
    if (!IsMessage(row.facts->family)) threads.insert(row.tid);
  }
  if (without == 0) return;
  std::vector<GroupKey> groups;
  std::set<std::vector<int32_t>> members;
  for (const GroupFacts& group : job.groups) {
    if (!group.may_be_gloo() || group.size <= 1) continue;
    std::string ranks;
    for (const int32_t rank : group.ranks) ranks += std::to_string(rank) + ",";
    groups.push_back({group.name, ranks, group.size});
    members.insert(group.ranks);
  }
  if (groups.empty() && !job.AllRanks().empty() && job.group_count.value_or(1) == 1) {
    groups.push_back({"", "", static_cast<int64_t>(*job.world_size)});
    members.insert(std::vector<int32_t>());
  }
  std::map<int64_t, size_t> group_of_thread;
  const bool is_one =
      groups.size() == 1 || (members.size() == 1 && threads.size() <= kThreadsOfGroup);
  const bool is_known =
      !groups.empty() && (is_one ? !job.groups.empty() || threads.size() <= kThreadsOfGroup
                                 : threads.size() == kThreadsOfGroup * groups.size());
  if (!is_known) {
    facts->remarks.push_back(
        OneOrMore(without, "row of gloo does", "rows of gloo do") +
        " not tell the process group, and the file names none or several: not used for the clock");
    return;
  }
  size_t number = 0;
  for (const int64_t tid : threads) group_of_thread[tid] = is_one ? 0 : number++ / kThreadsOfGroup;
  for (Row& row : rows_) {
    if (row.place != CallPlace::kGloo || row.facts->key != kNoGroup) continue;
    if (IsMessage(row.facts->family)) {
      // Where all groups have the same ranks, any of them tells sender and receiver of a message.
      if (is_one || members.size() == 1) row.facts->key = KeyOf(groups.front());
    } else {
      row.facts->key = KeyOf(groups[group_of_thread.at(row.tid)]);
    }
  }
}

std::vector<int32_t> CollectiveRows::RanksOf(const GroupKey& key, const JobFacts& job) const {
  bool is_cut = false;
  std::vector<int32_t> ranks = ReadRanks(key.ranks, &is_cut);
  const auto size = static_cast<size_t>(std::max<int64_t>(key.size, 0));
  if (!is_cut && (size == 0 || ranks.size() == size)) return ranks;
  for (const GroupFacts& group : job.groups) {
    if (group.name != key.name || group.ranks.empty()) continue;
    if (size != 0 && group.ranks.size() != size) continue;
    // The ranks that torch has not cut off must agree, because several groups may have one name.
    const size_t whole = std::min<size_t>({ranks.size(), group.ranks.size(), is_cut ? 29U : size});
    if (std::equal(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(whole),
                   group.ranks.begin())) {
      return group.ranks;
    }
  }
  std::vector<int32_t> all = job.AllRanks();
  if (size == 0 || all.size() != size) all.clear();
  return all;
}

bool CollectiveRows::IsEmpty(const Facts& facts) {
  if (facts.family == CollectiveFamily::kBarrier) return false;
  if (!facts.in_elements && !facts.out_elements) return false;
  const bool gives_none = facts.in_elements.value_or(0) == 0;
  const bool takes_none = facts.out_elements.value_or(0) == 0;
  if (HasRoot(facts.family) || IsMessage(facts.family)) return gives_none && takes_none;
  // Where parts may be of unlike sizes, a rank can give none and take some.
  return (gives_none && facts.in_elements) || (takes_none && facts.out_elements);
}

CollectiveCall CollectiveRows::CallOf(const Row& row, const FleetGroup& group) {
  const Facts& facts = *row.facts;
  const bool is_empty = IsEmpty(facts);
  CollectiveCall call;
  call.kind = KindOfFamily(facts.family);
  call.entered_ns = row.begin_ns;
  call.left_ns = row.end_ns;
  const bool has_member =
      facts.rank && *facts.rank >= 0 && static_cast<size_t>(*facts.rank) < group.ranks.size();
  const int32_t member = has_member ? group.ranks[static_cast<size_t>(*facts.rank)] : -1;
  const bool has_peer = facts.peer && *facts.peer >= 0 && *facts.peer <= kHighestRank;
  const int32_t peer = has_peer ? static_cast<int32_t>(*facts.peer) : member;
  if (HasRoot(facts.family)) call.root = member;
  if (facts.family == CollectiveFamily::kSend) call.destination = peer;
  if (facts.family == CollectiveFamily::kRecv) call.source = peer;
  const bool is_one_missing =
      (HasRoot(facts.family) && member < 0) || (IsMessage(facts.family) && peer < 0);
  if (row.place == CallPlace::kHost || is_empty || facts.has_empty_part || is_one_missing) {
    call.kind = CollectiveKind::kNoDependence;
  }
  // torch numbers messages by group and not by pair of ranks, so that the number is of no use here.
  if (!IsMessage(facts.family)) call.sequence = facts.sequence;
  if (IsOfEqualParts(facts.family)) {
    call.bytes = BytesOf(facts.in_elements, facts.type).value_or(0);
  }
  return call;
}

std::optional<SourceCall> CollectiveRows::SourceCallOf(const Row& row, const FleetGroup& group,
                                                       const std::optional<int32_t>& rank,
                                                       int64_t base_ns) const {
  const Facts& facts = *row.facts;
  SourceCall source;
  CollectiveCall& call = source.call;
  call = CallOf(row, group);
  if (rank && IsMessage(facts.family)) {
    (facts.family == CollectiveFamily::kSend ? call.source : call.destination) = *rank;
  }
  if (__builtin_add_overflow(call.entered_ns, base_ns, &call.entered_ns) ||
      __builtin_add_overflow(call.left_ns, base_ns, &call.left_ns)) {
    return std::nullopt;
  }
  source.op = std::string(CollectiveFamilyName(facts.family)) + "/";
  if (facts.type != nullptr) source.op += facts.type->name;
  source.place = row.place;
  source.device = row.device;
  source.stream = row.stream;
  if (row.place == CallPlace::kHost) source.launch_ns = call.entered_ns;
  if (row.launch_ns) source.launch_ns = *row.launch_ns + base_ns;
  source.in_bytes = BytesOf(facts.in_elements, facts.type);
  source.out_bytes = BytesOf(facts.out_elements, facts.type);
  return source;
}

void CollectiveRows::AddCalls(const JobFacts& job, int64_t base_ns, SourceFacts* facts) {
  std::vector<int64_t> group_of_key(keys_.size(), kNoGroup);
  std::map<std::pair<std::string, std::vector<int32_t>>, int64_t> groups;
  uint64_t unknown = 0;
  for (size_t i = 0; i < keys_.size(); ++i) {
    std::vector<int32_t> ranks = RanksOf(keys_[i], job);
    if (ranks.empty()) continue;
    const auto [at, is_new] = groups.try_emplace({keys_[i].name, ranks}, facts->groups.size());
    if (is_new) facts->groups.push_back({keys_[i].name, std::move(ranks)});
    facts->group_descriptions.resize(facts->groups.size());
    std::string& description = facts->group_descriptions[static_cast<size_t>(at->second)];
    if (description.empty()) description = descriptions_[i];
    group_of_key[i] = at->second;
  }
  FindRank(group_of_key, facts);
  const bool has_kernels = std::any_of(rows_.begin(), rows_.end(), [](const Row& row) {
    return row.place == CallPlace::kKernel && row.facts;
  });
  for (const Row& row : rows_) {
    if (has_kernels && row.place == CallPlace::kHost) continue;
    const int64_t group = row.facts && row.facts->key != kNoGroup
                              ? group_of_key[static_cast<size_t>(row.facts->key)]
                              : kNoGroup;
    if (group == kNoGroup) {
      if (row.place != CallPlace::kGloo || (row.facts && row.facts->key != kNoGroup)) ++unknown;
      if (!row.facts) continue;
      auto call = SourceCallOf(row, FleetGroup(), facts->rank, base_ns);
      if (call) facts->calls_without_group.push_back(*std::move(call));
      continue;
    }
    const FleetGroup& of = facts->groups[static_cast<size_t>(group)];
    if (of.ranks.size() <= 1) continue;
    auto call = SourceCallOf(row, of, facts->rank, base_ns);
    if (!call) continue;
    call->call.group = static_cast<uint32_t>(group);
    facts->calls.push_back(*std::move(call));
  }
  if (unknown > 0) {
    facts->remarks.push_back(OneOrMore(unknown, "collective does", "collectives do") +
                             " not tell the ranks of the process group (torch tells them from 2.3 "
                             "on): not used for the clock");
  }
}

// Finds the process's rank in the job: torch gives its rank in a group, and the group's list of
// ranks leads to the rank in the job.
void CollectiveRows::FindRank(const std::vector<int64_t>& group_of_key, SourceFacts* facts) const {
  if (facts->rank) return;
  std::set<int32_t> found;
  for (const Row& row : rows_) {
    if (row.place == CallPlace::kGloo || !row.facts || row.facts->key == kNoGroup) continue;
    if (!row.facts->rank || HasRoot(row.facts->family) || IsMessage(row.facts->family)) continue;
    const int64_t group = group_of_key[static_cast<size_t>(row.facts->key)];
    if (group == kNoGroup || *row.facts->rank < 0) continue;
    const std::vector<int32_t>& ranks = facts->groups[static_cast<size_t>(group)].ranks;
    const auto number = static_cast<size_t>(*row.facts->rank);
    if (number < ranks.size()) found.insert(ranks[number]);
  }
  if (found.size() == 1) facts->rank = *found.begin();
}

// Marks each group's calls during a loss, and its first call after it. `calls` are sorted by group
// and time.
void CollectiveRows::MarkLosses(int64_t base_ns, std::vector<SourceCall>* calls) {
  std::sort(losses_.begin(), losses_.end());
  constexpr int64_t kNone = std::numeric_limits<int64_t>::min();
  size_t next = 0;
  int64_t until_ns = kNone;  // the end of the losses that no call has passed yet
  std::optional<uint32_t> group;
  for (SourceCall& source : *calls) {
    CollectiveCall& call = source.call;
    if (group != call.group) {
      group = call.group;
      next = 0;
      until_ns = kNone;
    }
    const int64_t begin_ns = call.entered_ns - base_ns;
    for (; next < losses_.size() && losses_[next].first < begin_ns; ++next) {
      until_ns = std::max(until_ns, losses_[next].second);
    }
    call.is_after_loss = until_ns != kNone;
    if (begin_ns > until_ns) until_ns = kNone;
  }
}

void CollectiveRows::Finish(const JobFacts& job, int64_t base_ns, SourceFacts* facts) {
  JoinKernels();
  FindGroupsOfWorks(job, facts);
  std::set<int64_t> keys_of_works;
  for (const Row& row : rows_) {
    if (row.place == CallPlace::kGloo) keys_of_works.insert(row.facts->key);
  }
  FindRootsOfWorks(keys_of_works.size() <= 1);
  AddCalls(job, base_ns, facts);
  std::vector<SourceCall>& calls = facts->calls;
  std::stable_sort(calls.begin(), calls.end(), [](const SourceCall& a, const SourceCall& b) {
    return std::tie(a.call.group, a.call.entered_ns) < std::tie(b.call.group, b.call.entered_ns);
  });
  // Several kernels may work for one collective. They have the same number, and become one call.
  size_t kept = 0;
  for (size_t i = 0; i < calls.size(); ++i) {
    const bool is_same = kept > 0 && calls[i].call.sequence && calls[i].op == calls[kept - 1].op &&
                         calls[i].call.group == calls[kept - 1].call.group &&
                         calls[i].call.sequence == calls[kept - 1].call.sequence;
    if (is_same) {
      calls[kept - 1].call.left_ns = std::max(calls[kept - 1].call.left_ns, calls[i].call.left_ns);
      continue;
    }
    if (kept != i) calls[kept] = std::move(calls[i]);
    ++kept;
  }
  calls.resize(kept);
  MarkLosses(base_ns, &calls);
  std::stable_sort(facts->calls_without_group.begin(), facts->calls_without_group.end(),
                   [](const SourceCall& a, const SourceCall& b) {
                     return a.call.entered_ns < b.call.entered_ns;
                   });
  rows_.clear();
  calls_.clear();
}

}  // namespace proftrace
