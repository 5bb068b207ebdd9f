#include "symbols/plan/plan_cache.h"

#include <utility>

#include "bpf/abi/records.h"
#include "symbols/process/cache_bytes.h"

namespace proftrace {
namespace {

constexpr size_t kMaxFunctions = 65536;
constexpr size_t kMaxEnds = 16;
constexpr uint32_t kMaxPieces = 8 * KeptPiece::kSources;
constexpr uint32_t kMaxSavedDoubles = 8;  // as many as there are registers for them

void EncodeFunction(const ProbedFunction& function, CacheWriter* out) {
  out->Number(static_cast<uint8_t>(function.role));
  out->Number(static_cast<uint8_t>(function.exit_rule));
  out->Number(function.argument);
  out->Number(function.stack_argument);
  out->Number(static_cast<uint8_t>(function.begin_emulated));
  out->Number(function.begin);
  out->Number(function.cost_probe);
  out->Number(function.callbacks.offset);
  out->Number(function.callbacks.key_set);
  out->Number(static_cast<uint16_t>(function.callbacks.key_set_offset));
  out->Number(function.callbacks.frame_words);
  out->Number(static_cast<uint32_t>(function.ends.size()));
  for (const uint64_t end : function.ends) out->Number(end);
  out->Number(function.saved_doubles.address);
  out->Number(static_cast<uint32_t>(function.saved_doubles.saved.size()));
  for (const SavedDouble& place : function.saved_doubles.saved) {
    out->Number(static_cast<uint8_t>((place.is_saved ? 1 : 0) | (place.by_frame_pointer ? 2 : 0)));
    out->Number(static_cast<uint16_t>(place.offset));
  }
  out->Number(function.arguments.stack_words);
  out->Number(static_cast<uint32_t>(function.arguments.pieces.size()));
  for (const KeptPiece& piece : function.arguments.pieces) {
    out->Number(piece.source);
    out->Number(piece.first);
    out->Number(piece.count);
    out->Number(static_cast<uint8_t>(piece.in_frame));
    out->Number(static_cast<uint16_t>(piece.place));
  }
  out->Text(function.symbol);
}

bool DecodeArguments(CacheReader* in, KeptArguments* arguments) {
  arguments->stack_words = in->Number<uint16_t>();
  const uint32_t count = in->Number<uint32_t>();
  if (!in->ok() || count > kMaxPieces) return false;
  for (uint32_t i = 0; i < count; ++i) {
    KeptPiece piece;
    piece.source = in->Number<uint8_t>();
    piece.first = in->Number<uint8_t>();
    piece.count = in->Number<uint8_t>();
    piece.in_frame = in->Number<uint8_t>() != 0;
    piece.place = static_cast<int16_t>(in->Number<uint16_t>());
    if (!in->ok() || piece.source >= KeptPiece::kSources || piece.first + piece.count > 8 ||
        piece.place < 0) {
      return false;
    }
    arguments->pieces.push_back(piece);
  }
  return true;
}

bool DecodeSavedDoubles(CacheReader* in, uint64_t file_bytes, SavedDoubles* doubles) {
  doubles->address = in->Number<uint64_t>();
  const uint32_t count = in->Number<uint32_t>();
  if (!in->ok() || doubles->address >= file_bytes || count > kMaxSavedDoubles) return false;
  for (uint32_t i = 0; i < count; ++i) {
    const uint8_t flags = in->Number<uint8_t>();
    const auto offset = static_cast<int16_t>(in->Number<uint16_t>());
    doubles->saved.push_back(SavedDouble{(flags & 1) != 0, (flags & 2) != 0, offset});
  }
  return in->ok();
}

bool DecodeFunction(CacheReader* in, uint64_t file_bytes, ProbedFunction* function) {
  const uint8_t role = in->Number<uint8_t>();
  const uint8_t rule = in->Number<uint8_t>();
  function->role = static_cast<FunctionRole>(role);
  function->exit_rule = static_cast<ExitRule>(rule);
  function->argument = in->Number<uint8_t>();
  function->stack_argument = in->Number<uint8_t>();
  function->begin_emulated = in->Number<uint8_t>() != 0;
  function->begin = in->Number<uint64_t>();
  function->cost_probe = in->Number<uint64_t>();
  function->callbacks.offset = in->Number<uint64_t>();
  function->callbacks.key_set = in->Number<uint8_t>();
  function->callbacks.key_set_offset = static_cast<int16_t>(in->Number<uint16_t>());
  function->callbacks.frame_words = in->Number<uint16_t>();
  const uint32_t ends = in->Number<uint32_t>();
  const bool is_role = role <= static_cast<uint8_t>(FunctionRole::kCollector) ||
                       IsMemoryRole(static_cast<FunctionRole>(role)) ||
                       role == static_cast<uint8_t>(FunctionRole::kCudaCall);
  if (!in->ok() || !is_role || rule > static_cast<uint8_t>(ExitRule::kReturn) ||
      function->argument > abi::PT_R9 || function->stack_argument > abi::PT_R9 ||
      function->begin >= file_bytes || function->cost_probe >= file_bytes ||
      function->callbacks.offset >= file_bytes ||
      function->callbacks.frame_words >= PT_FRAME_WORDS_LIMIT || ends > kMaxEnds) {
    return false;
  }
  for (uint32_t i = 0; i < ends; ++i) {
    const uint64_t end = in->Number<uint64_t>();
    if (end >= file_bytes || end == function->begin || end == function->callbacks.offset) {
      return false;
    }
    if (!function->ends.empty() && end <= function->ends.back()) return false;
    function->ends.push_back(end);
  }
  if (HasNoEnd(function->role) != function->ends.empty()) return false;
  if (!DecodeSavedDoubles(in, file_bytes, &function->saved_doubles)) return false;
  if (!DecodeArguments(in, &function->arguments)) return false;
  function->symbol = in->Text();
  return in->ok();
}

void EncodePlace(const abi::pt_place& place, CacheWriter* out) {
  out->Number(place.address);
  for (const int32_t offset : place.offsets) out->Number(static_cast<uint32_t>(offset));
  out->Number(place.base);
  out->Number(place.count);
  out->Number(place.form);
  out->Number(place.is_byte);
  out->Number(place.is_content);
  out->Number(place.index);
  out->Number(place.index_shift);
  out->Number(place.index_step);
}

bool DecodePlace(CacheReader* in, uint8_t last_base, abi::pt_place* place) {
  place->address = in->Number<uint64_t>();
  for (int32_t& offset : place->offsets) offset = static_cast<int32_t>(in->Number<uint32_t>());
  place->base = in->Number<uint8_t>();
  place->count = in->Number<uint8_t>();
  place->form = in->Number<uint8_t>();
  place->is_byte = in->Number<uint8_t>();
  place->is_content = in->Number<uint8_t>();
  place->index = in->Number<uint8_t>();
  place->index_shift = in->Number<uint8_t>();
  place->index_step = in->Number<uint8_t>();
  return in->ok() && place->base <= last_base && place->count > 0 &&
         place->count <= PT_PLACE_OFFSETS && place->form <= abi::PT_PLACE_SYMBOL &&
         place->index <= abi::PT_PLACE_ADDRESS && place->index_shift < 64;
}

void EncodeProbe(const RowProbe& probe, CacheWriter* out) {
  out->Number(probe.offset);
  out->Number(probe.role);
  out->Number(probe.handle_register);
  out->Number(static_cast<uint16_t>(probe.handle_offset));
  out->Number(static_cast<uint8_t>(probe.place.has_value()));
  if (probe.place) EncodePlace(*probe.place, out);
  out->Number(static_cast<uint8_t>(probe.otherwise.has_value()));
  if (probe.otherwise) EncodePlace(*probe.otherwise, out);
  out->Number(static_cast<uint8_t>(probe.inputs.kind));
  out->Number(static_cast<uint8_t>(probe.inputs.words.size()));
  for (const abi::pt_place& word : probe.inputs.words) EncodePlace(word, out);
  out->Text(probe.inputs.type);
  out->Number(uint8_t{probe.inputs.has_keyword_scope});
}

bool DecodeProbe(CacheReader* in, uint64_t file_bytes, RowProbe* probe) {
  probe->offset = in->Number<uint64_t>();
  probe->role = in->Number<uint8_t>();
  probe->handle_register = in->Number<uint8_t>();
  probe->handle_offset = static_cast<int16_t>(in->Number<uint16_t>());
  if (in->Number<uint8_t>() != 0) {
    probe->place.emplace();
    if (!DecodePlace(in, abi::PT_PLACE_ADDRESS, &*probe->place)) return false;
  }
  if (in->Number<uint8_t>() != 0) {
    probe->otherwise.emplace();
    if (!DecodePlace(in, abi::PT_PLACE_ADDRESS, &*probe->otherwise)) return false;
  }
  const uint8_t kind = in->Number<uint8_t>();
  const uint8_t words = in->Number<uint8_t>();
  if (kind > static_cast<uint8_t>(RowInputKind::kTensors) || words > PT_ROW_WORDS) return false;
  probe->inputs.kind = static_cast<RowInputKind>(kind);
  for (uint8_t i = 0; i < words; ++i) {
    if (!DecodePlace(in, abi::PT_PLACE_UNKNOWN, &probe->inputs.words.emplace_back())) return false;
  }
  probe->inputs.type = in->Text();
  probe->inputs.has_keyword_scope = in->Number<uint8_t>() != 0;
  const bool is_role =
      probe->role <= abi::PT_ROLE_WORK_BEGIN || probe->role == abi::PT_ROLE_PLACED_NODE ||
      probe->role == abi::PT_ROLE_WORK_END || probe->role == abi::PT_ROLE_UNWOUND ||
      probe->role == abi::PT_ROLE_GROUP_CALL ||
      (probe->role >= abi::PT_ROLE_RANGE_PUSH && probe->role <= abi::PT_ROLE_RANGE_MARK);
  return in->ok() && probe->offset < file_bytes && is_role;
}

void EncodeVariable(const ThreadVariable& variable, CacheWriter* out) {
  out->Number(variable.index);
  out->Number(static_cast<uint64_t>(variable.offset));
}

ThreadVariable DecodeVariable(CacheReader* in) {
  ThreadVariable variable;
  variable.index = in->Number<uint64_t>();
  variable.offset = static_cast<int64_t>(in->Number<uint64_t>());
  return variable;
}

constexpr uint8_t kNoGradMode = 0xff;

void EncodeAutograd(const AutogradFacts& facts, CacheWriter* out) {
  EncodeVariable(facts.sequence, out);
  EncodeVariable(facts.thread_number, out);
  EncodeVariable(facts.state, out);
  EncodeVariable(facts.state_set, out);
  out->Number(facts.grad_mode_offset.value_or(kNoGradMode));
  out->Number(facts.lowest_key);
  out->Number(facts.lowest_key_of_alias);
  out->Number(static_cast<uint8_t>(facts.has_rule));
  out->Number(static_cast<uint8_t>(facts.highest_only));
  out->Number(facts.node_sequence);
}

bool DecodeAutograd(CacheReader* in, AutogradFacts* facts) {
  facts->sequence = DecodeVariable(in);
  facts->thread_number = DecodeVariable(in);
  facts->state = DecodeVariable(in);
  facts->state_set = DecodeVariable(in);
  const uint8_t grad_mode = in->Number<uint8_t>();
  if (grad_mode != kNoGradMode) facts->grad_mode_offset = grad_mode;
  facts->lowest_key = in->Number<uint8_t>();
  facts->lowest_key_of_alias = in->Number<uint8_t>();
  facts->has_rule = in->Number<uint8_t>() != 0;
  facts->highest_only = in->Number<uint8_t>() != 0;
  facts->node_sequence = in->Number<uint16_t>();
  return in->ok() && facts->lowest_key < 64 && facts->lowest_key_of_alias < 64;
}

void EncodeRow(const MadeRow& row, CacheWriter* out) {
  out->Text(row.symbol);
  out->Text(row.literal);
  out->Number(static_cast<uint8_t>(row.is_async));
  out->Number(static_cast<uint32_t>(row.probes.size()));
  for (const RowProbe& probe : row.probes) EncodeProbe(probe, out);
}

bool DecodeProbes(CacheReader* in, uint64_t file_bytes, std::vector<RowProbe>* probes) {
  const uint32_t count = in->Number<uint32_t>();
  if (!in->ok() || count > kMaxFunctions) return false;
  for (uint32_t i = 0; i < count; ++i) {
    if (!DecodeProbe(in, file_bytes, &probes->emplace_back())) return false;
  }
  return true;
}

}  // namespace

std::string EncodeFacts(std::string_view identity, const ModuleFacts& facts) {
  CacheWriter out;
  out.Text(identity);
  out.Number(facts.dispatcher_slot);
  out.Number(facts.python_node_vtable);
  out.Number(facts.undefined_tensor);
  out.Number(static_cast<uint8_t>(facts.old_string_abi));
  out.Number(static_cast<uint8_t>(facts.is_python_binding));
  EncodeAutograd(facts.autograd, &out);
  out.Number(facts.callbacks_entry);
  out.Number(facts.callbacks_next);
  out.Number(static_cast<uint32_t>(facts.functions.size()));
  for (const ProbedFunction& function : facts.functions) EncodeFunction(function, &out);
  out.Number(static_cast<uint32_t>(facts.rows.size()));
  for (const MadeRow& row : facts.rows) EncodeRow(row, &out);
  out.Number(static_cast<uint32_t>(facts.row_ends.size()));
  for (const RowProbe& probe : facts.row_ends) EncodeProbe(probe, &out);
  out.Number(static_cast<uint32_t>(facts.gaps.size()));
  for (const PlanGap& gap : facts.gaps) {
    out.Text(gap.feature);
    out.Text(gap.reason);
  }
  return out.Take();
}

std::optional<ModuleFacts> DecodeFacts(std::string_view bytes, std::string_view identity,
                                       uint64_t file_bytes) {
  CacheReader in(bytes);
  if (in.Text() != identity || !in.ok()) return std::nullopt;
  ModuleFacts facts;
  facts.dispatcher_slot = in.Number<uint64_t>();
  facts.python_node_vtable = in.Number<uint64_t>();
  facts.undefined_tensor = in.Number<uint64_t>();
  facts.old_string_abi = in.Number<uint8_t>() != 0;
  facts.is_python_binding = in.Number<uint8_t>() != 0;
  if (!DecodeAutograd(&in, &facts.autograd)) return std::nullopt;
  facts.callbacks_entry = in.Number<uint64_t>();
  facts.callbacks_next = in.Number<uint64_t>();
  if (facts.callbacks_entry >= file_bytes || facts.callbacks_next >= file_bytes) {
    return std::nullopt;
  }
  const uint32_t functions = in.Number<uint32_t>();
  if (!in.ok() || functions > kMaxFunctions) return std::nullopt;
  for (uint32_t i = 0; i < functions; ++i) {
    ProbedFunction function;
    if (!DecodeFunction(&in, file_bytes, &function)) return std::nullopt;
    facts.functions.push_back(std::move(function));
  }
  const uint32_t rows = in.Number<uint32_t>();
  if (!in.ok() || rows > kMaxFunctions) return std::nullopt;
  for (uint32_t i = 0; i < rows; ++i) {
    MadeRow row;
    row.symbol = in.Text();
    row.literal = in.Text();
    row.is_async = in.Number<uint8_t>() != 0;
    if (!DecodeProbes(&in, file_bytes, &row.probes) || row.probes.empty()) return std::nullopt;
    facts.rows.push_back(std::move(row));
  }
  if (!DecodeProbes(&in, file_bytes, &facts.row_ends)) return std::nullopt;
  const uint32_t gaps = in.Number<uint32_t>();
  if (!in.ok() || gaps > kMaxFunctions) return std::nullopt;
  for (uint32_t i = 0; i < gaps && in.ok(); ++i) {
    PlanGap gap;
    gap.feature = in.Text();
    gap.reason = in.Text();
    facts.gaps.push_back(std::move(gap));
  }
  if (!in.ok() || !in.at_end()) return std::nullopt;
  return facts;
}

std::optional<ModuleFacts> PlanCache::Load(const HeldFile& file,
                                           const std::string& build_id) const {
  const std::string identity = FileIdentity(file, build_id);
  const std::optional<std::string> content = folder_.Load(identity);
  if (!content) return std::nullopt;
  return DecodeFacts(*content, identity, static_cast<uint64_t>(file.state().bytes));
}

void PlanCache::Store(const HeldFile& file, const std::string& build_id,
                      const ModuleFacts& facts) const {
  if (!usable()) return;
  const std::string identity = FileIdentity(file, build_id);
  folder_.Store(identity, EncodeFacts(identity, facts));
}

}  // namespace proftrace
