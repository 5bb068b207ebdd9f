#include "userspace/decode/decoder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "bpf/abi/python_records.h"
#include "bpf/abi/read_record.h"
#include "bpf/abi/record_kinds.h"
#include "userspace/base/text.h"
#include "userspace/model/python_stack.h"
#include "userspace/model/torch_rules.h"

namespace proftrace {
namespace {

using abi::pt_record;

uint64_t BlockAddress(const pt_record& head) {
  return static_cast<uint64_t>(head.site) << 32 | head.sp;
}

// Returns an event with the device's totals, which goes before the memory event because that has no
// room for them.
Event DeviceTotals(Event event, const abi::pt_memory_record& record) {
  event.type = EventType::kDeviceTotals;
  event.value = record.allocated;
  event.object = record.reserved;
  return event;
}

// Numbers from these on are no sequence or thread numbers, because no program makes so many nodes
// or threads. torch itself keeps 48 and 16 bits of these numbers
// (torch/csrc/profiler/collection.cpp, getForwardThreadKey).
constexpr uint64_t kSequenceLimit = uint64_t{1} << 48;
constexpr uint64_t kThreadNumberLimit = uint64_t{1} << 16;

uint64_t SequencePlus1(uint64_t number) { return number < kSequenceLimit ? number + 1 : 0; }

// Returns the scope for an argument as the target passed it, of which only the low byte counts.
Scope KnownScope(uint32_t scope) {
  scope &= 0xff;
  return scope <= static_cast<uint32_t>(Scope::kStaticRuntimeModel) ? static_cast<Scope>(scope)
                                                                    : Scope::kFunction;
}

// Returns a label by its scope, from which Kineto's category follows. The rest of the label is for
// summary.json.
Label LabelOfScope(Scope scope) {
  Label label;
  label.scope = scope;
  if (scope == Scope::kUserScope) {
    label.category = Category::kUserAnnotation;
    label.kind = SpanKind::kAnnotation;
  } else if (scope == Scope::kBackwardFunction) {
    label.kind = SpanKind::kAutograd;
  }
  return label;
}

}  // namespace

Decoder::Decoder(const CaptureMetadata& metadata, Ledger* ledger,
                 const std::string& spill_directory)
    : metadata_(metadata),
      ledger_(ledger),
      inputs_(ledger),
      group_calls_(metadata),
      python_(ledger),
      system_(spill_directory, ledger) {
  for (const auto& [id, plan] : metadata.plans) {
    if (id > 0xffff) continue;  // only a damaged file has such a number
    if (site_labels_.size() <= id) site_labels_.resize(id + 1);
    for (const Label& label : plan.sites) {
      site_labels_[id].push_back(InternLabel(label));
      are_works_marked_ |= label.is_async;
    }
  }
  for (const ProcessEntry& entry : metadata.processes) {
    const Target& target = entry.target;
    const int64_t begin_ns =
        target.probes_begin_ns != 0 ? target.probes_begin_ns : target.probes_on_ns;
    processes_[Raw(target.pid)].push_back({begin_ns, target.probes_on_ns, entry.plan, entry.image,
                                           InputFormOf(target.torch_version)});
  }
}

const Decoder::Process* Decoder::FindProcess(uint32_t pid, int64_t time_ns) {
  if (last_processes_ == nullptr || pid != last_pid_) {
    const auto it = processes_.find(pid);
    if (it == processes_.end()) return nullptr;
    last_pid_ = pid;
    last_processes_ = &it->second;
  }
  // This takes the last one that was live by then. For earlier times it takes the first one, whose
  // sites have the same meaning.
  for (auto it = last_processes_->rbegin(); it != last_processes_->rend(); ++it) {
    if (it->probes_begin_ns <= time_ns) return &*it;
  }
  return &last_processes_->front();
}

EventLabel Decoder::SiteLabel(const Process& process, uint16_t site) const {
  if (process.plan >= site_labels_.size() || site >= site_labels_[process.plan].size()) {
    return kUnnamedLabel;
  }
  return site_labels_[process.plan][site];
}

EventLabel Decoder::BoxedLabel(const Process& process, uint64_t operator_def) {
  const std::pair<uint32_t, uint64_t> key(process.image, operator_def);
  const auto it = boxed_labels_.find(key);
  if (it != boxed_labels_.end()) return it->second;
  EventLabel result = kUnnamedLabel;
  const auto image = metadata_.images.find(process.image);
  if (image != metadata_.images.end()) {
    const auto found = image->second.operators.find(operator_def);
    // An entry without a name stands for several operators that lay there, one after the other.
    if (found != image->second.operators.end() && !found->second.name.empty()) {
      Label label;
      label.name = found->second.name;
      label.overload_name = found->second.overload_name;
      result = IsUnobserved(label.name) ? kHiddenLabel : InternLabel(label);
    }
  }
  boxed_labels_.emplace(key, result);
  return result;
}

EventLabel Decoder::TextLabel(std::string text, uint32_t length, Label label) {
  bool is_cut = text.size() < PT_TEXT_LENGTH(length);
  const uint32_t width = PT_TEXT_WIDTH(length);
  if (width == 1 || width == 2 || width == 4) {  // else it is UTF-8, or its length is not known
    text = PythonTextToUtf8({reinterpret_cast<const uint8_t*>(text.data()), text.size()}, width);
    is_cut = is_cut || text.size() > PT_NAME_BYTES;
    text.resize(std::min<size_t>(text.size(), PT_NAME_BYTES));
  }
  if (is_cut) {
    label.name += std::string(WithoutCutCharacter(text)) + "…";
    ++ledger_->names_cut;
  } else {
    label.name += text;
  }
  return InternLabel(label);
}

bool Decoder::DecodeAnnotation(const abi::pt_text_record& record, const Process& process,
                               Event* event) {
  event->type = EventType::kAnnotationBegin;
  event->label = kUnnamedLabel;
  if (record.length == PT_TEXT_READ_FAILED) return true;
  // A range that is only known to start has a site that says so.
  const EventLabel site =
      record.head.site == 0 ? kUnnamedLabel : SiteLabel(process, record.head.site);
  Label label = LabelOfScope(Scope::kUserScope);
  if (site != kUnnamedLabel) label.name = labels_[site].name;
  std::string text(record.text, std::min<size_t>(record.length, PT_TEXT_BYTES));
  if (record.length > PT_TEXT_BYTES) {
    pending_names_[Raw(event->tid)] =
        PendingName{*event, std::move(text), record.length, std::move(label)};
    return false;
  }
  event->label = TextLabel(std::move(text), record.length, std::move(label));
  return true;
}

EventLabel Decoder::NamedLabel(const Process& process, uint16_t site, uint64_t symbol_and_scope) {
  Label label = LabelOfScope(KnownScope(static_cast<uint32_t>(symbol_and_scope >> 32)));
  const auto symbol = static_cast<uint32_t>(symbol_and_scope);
  if (symbol == 0) {
    const EventLabel site_label = SiteLabel(process, site);
    if (site_label != kUnnamedLabel) label.name = labels_[site_label].name;
  } else if (const auto image = metadata_.images.find(process.image);
             image != metadata_.images.end()) {
    const auto name = image->second.symbol_names.find(symbol);
    if (name != image->second.symbol_names.end()) label.name = name->second;
  }
  return label.name.empty() ? kUnnamedLabel : InternLabel(label);
}

bool Decoder::DecodeGuard(const abi::pt_guard_record& record, const Process& process,
                          Event* event) {
  event->type =
      record.head.kind == abi::PT_FRAME_BEGIN ? EventType::kFrameBegin : EventType::kGuardBegin;
  event->value = record.handle;
  event->object = record.object;
  event->label = kUnnamedLabel;
  Label label = LabelOfScope(inputs_.HasUserScope(record.head) ? Scope::kUserScope
                                                               : KnownScope(record.scope));
  const EventLabel site_label = SiteLabel(process, record.head.site);
  label.is_async = site_label != kUnnamedLabel && labels_[site_label].is_async;
  if (size_t{record.head.words} * 8 < sizeof(record)) {
    if (site_label == kUnnamedLabel || labels_[site_label].name.empty()) return true;
    label.name = labels_[site_label].name;
    event->label = InternLabel(label);
    return true;
  }
  if (record.length == PT_TEXT_READ_FAILED) return true;
  const uint32_t bytes = PT_TEXT_LENGTH(record.length);
  std::string text(record.text, std::min<size_t>(bytes, PT_TEXT_BYTES));
  label.is_async |= !are_works_marked_ && label.scope == Scope::kUserScope && IsTitleOfWork(text);
  if (bytes > PT_TEXT_BYTES) {
    pending_names_[Raw(event->tid)] =
        PendingName{*event, std::move(text), record.length, std::move(label)};
    return false;
  }
  event->label = TextLabel(std::move(text), record.length, std::move(label));
  return true;
}

bool Decoder::DecodeWorkTitle(const abi::pt_guard_record& record, const Process& process,
                              Event* event) {
  if (record.length == PT_TEXT_READ_FAILED) return false;
  const pt_record& head = record.head;
  const size_t bytes = std::min<size_t>(record.length, PT_TEXT_BYTES);
  bool waits = false;
  Label label = LabelOfScope(KnownScope(record.scope));
  label.is_async = true;
  const InputsId inputs = inputs_.Take(head, process.input_form, &waits);
  work_titles_[{head.pid, record.handle}] = {
      TextLabel(std::string(record.text, bytes), record.length, std::move(label)),
      inputs_.WithKeywords(inputs, group_calls_.Take(head.pid, head.tid, /*is_message=*/false))};
  event->type = EventType::kWorkTitle;
  event->value = record.handle;
  return true;
}

bool Decoder::DecodeWork(const abi::pt_pointer_record& record, Event* event) {
  const auto title = work_titles_.find({record.head.pid, record.value});
  if (title == work_titles_.end()) return false;
  event->type = EventType::kGuardBegin;
  event->value = record.value;
  event->label = title->second.label;
  event->inputs = title->second.inputs;
  work_titles_.erase(title);
  return true;
}

bool Decoder::DecodeNodeForward(const abi::pt_pair_record& record, Event* event) {
  if (record.handle >= kSequenceLimit || record.object == 0 ||
      record.object >= kThreadNumberLimit) {
    ++ledger_->read_failed;  // the bytes that were read are no node
    return false;
  }
  event->type = EventType::kSequence;
  event->value = record.handle + 1;
  event->object = record.object;
  return true;
}

void Decoder::AppendText(uint32_t tid, const abi::pt_text_more_record& record,
                         std::vector<Event>* events) {
  const auto it = pending_names_.find(tid);
  if (it == pending_names_.end()) return;
  PendingName& pending = it->second;
  const size_t bytes = std::min<size_t>(record.bytes, PT_TEXT_MORE_BYTES);
  if (record.offset != pending.text.size()) return;
  if (pending.length == kLengthNotTold && bytes < PT_TEXT_MORE_BYTES) {
    pending.length = static_cast<uint32_t>(pending.text.size() + bytes);
  }
  pending.text.append(record.text, std::min(bytes, PT_NAME_BYTES - pending.text.size()));
  const size_t wanted = std::min<size_t>(PT_TEXT_LENGTH(pending.length), PT_NAME_BYTES);
  if (pending.text.size() >= wanted) FinishPending(tid, events);
}

void Decoder::FinishPending(uint32_t tid, std::vector<Event>* events) {
  const auto it = pending_names_.find(tid);
  if (it == pending_names_.end()) return;
  PendingName& pending = it->second;
  pending.event.label =
      TextLabel(std::move(pending.text), pending.length, std::move(pending.label));
  events->push_back(it->second.event);
  pending_names_.erase(it);
}

void Decoder::Flush(std::vector<Event>* events) {
  std::vector<uint32_t> tids;
  for (const auto& [tid, pending] : pending_names_) tids.push_back(tid);
  std::sort(tids.begin(), tids.end());  // a replay gives the same order each time
  for (const uint32_t tid : tids) FinishPending(tid, events);
  tids.clear();
  for (const auto& [tid, event] : waiting_) tids.push_back(tid);
  std::sort(tids.begin(), tids.end());
  for (const uint32_t tid : tids) FinishWaiting(tid, {}, events);
}

void Decoder::DecodeInputs(std::span<const std::byte> record, std::vector<Event>* events) {
  const auto head = ReadRecord<pt_record>(record);
  if (head.kind != abi::PT_SPILLED_INPUTS) {
    FinishWaiting(head.tid, {}, events);
    inputs_.OnRecord(record);
    return;
  }
  // Each value is a PT_VALUE_DOUBLE and the number.
  const auto spilled = ReadRecord<abi::pt_inputs_record>(record);
  const size_t words = (record.size() - PT_INPUTS_HEAD_BYTES) / 8;
  std::vector<uint64_t> doubles;
  for (size_t i = 1; i < words && spilled.flags == 0; i += 2) doubles.push_back(spilled.values[i]);
  FinishWaiting(head.tid, doubles, events);
}

void Decoder::FinishWaiting(uint32_t tid, std::span<const uint64_t> doubles,
                            std::vector<Event>* events) {
  const auto it = waiting_.find(tid);
  if (it == waiting_.end()) return;
  it->second.inputs = inputs_.FinishWaiting(tid, doubles);
  events->push_back(it->second);
  waiting_.erase(it);
}

bool Decoder::AddInputs(const pt_record& head, Event* event) {
  const Process* process = FindProcess(head.pid, event->time_ns);
  // A work already has the inputs that came with its title.
  if (process == nullptr || event->inputs != kNoInputs) return true;
  bool waits = false;
  event->inputs = inputs_.Take(head, process->input_form, &waits);
  if (waits) waiting_[head.tid] = *event;
  if (!waits && event->type == EventType::kGuardBegin && event->label < labels_.size() &&
      labels_[event->label].is_async && labels_[event->label].name.starts_with("gloo:")) {
    // The row of a message begins where it is called.
    event->inputs = inputs_.WithKeywords(
        event->inputs, group_calls_.Take(head.pid, head.tid, /*is_message=*/true));
  }
  return !waits;
}

void Decoder::DecodeBegin(const pt_record& head, std::span<const std::byte> record,
                          const Process& process, Event* event) {
  event->type = EventType::kBegin;
  if (head.kind == abi::PT_BOXED_BEGIN) {
    event->label = BoxedLabel(process, ReadRecord<abi::pt_pointer_record>(record).value);
  } else if (head.kind == abi::PT_NAMED_BEGIN) {
    event->label = NamedLabel(process, head.site, ReadRecord<abi::pt_pointer_record>(record).value);
  } else if (head.kind == abi::PT_OPERATOR_CALL) {
    event->label = SiteLabel(process, head.site);
    const uint64_t facts = ReadRecord<abi::pt_pointer_record>(record).value;
    event->value = facts & ((uint64_t{1} << PT_CALL_SEQUENCE_BITS) - 1);
    inputs_.OnCall(head, facts, record);
  } else if (head.kind == abi::PT_SIZED_BEGIN) {
    event->label = SiteLabel(process, head.site);
    event->object = ReadRecord<abi::pt_pointer_record>(record).value;
  } else {
    event->label = SiteLabel(process, head.site);
    if (record.size() >= sizeof(abi::pt_pointer_record)) {
      event->value = SequencePlus1(ReadRecord<abi::pt_pointer_record>(record).value);
    }
  }
}

bool Decoder::DecodeBody(const pt_record& head, std::span<const std::byte> record, Event* event) {
  const Process* process = FindProcess(head.pid, event->time_ns);
  if (process == nullptr) {
    // The process is unknown only where the capture lost its metadata. Then nothing is known about
    // the event.
    static const Process kNone{0, 0, 0xffffffff, 0xffffffff};
    process = &kNone;
  }
  event->outside_window =
      event->time_ns < std::max(process->probes_on_ns, metadata_.info.window.start_ns);
  switch (static_cast<abi::pt_kind>(head.kind)) {
    case abi::PT_SPAN_BEGIN:
    case abi::PT_OPERATOR_CALL:
    case abi::PT_LITERAL_BEGIN:
    case abi::PT_BOXED_BEGIN:
    case abi::PT_SIZED_BEGIN:
    case abi::PT_NAMED_BEGIN:
      DecodeBegin(head, record, *process, event);
      break;
    case abi::PT_NODE_BEGIN:
      return DecodeNode(ReadRecord<abi::pt_node_record>(record), *process, event);
    case abi::PT_SPAN_END:
      event->type = EventType::kEnd;
      break;
    case abi::PT_CATCH:
      event->type = EventType::kCatch;
      break;
    case abi::PT_ANNOTATION_BEGIN:
      return DecodeAnnotation(ReadRecord<abi::pt_text_record>(record), *process, event);
    case abi::PT_ANNOTATION_HANDLE:
      event->type = EventType::kAnnotationHandle;
      event->value = ReadRecord<abi::pt_pointer_record>(record).value;
      break;
    case abi::PT_ANNOTATION_GUARD:
      event->type = EventType::kAnnotationGuard;
      event->value = ReadRecord<abi::pt_pointer_record>(record).value;
      break;
    case abi::PT_ANNOTATION_END:
      event->type = EventType::kAnnotationEnd;
      event->value = ReadRecord<abi::pt_pointer_record>(record).value;
      break;
    case abi::PT_GUARD_BEGIN:
    case abi::PT_FRAME_BEGIN:
      return DecodeGuard(ReadRecord<abi::pt_guard_record>(record), *process, event);
    case abi::PT_WORK_TITLE:
      return DecodeWorkTitle(ReadRecord<abi::pt_guard_record>(record), *process, event);
    case abi::PT_GROUP_CALL:
      group_calls_.OnRecord(ReadRecord<abi::pt_pair_record>(record));
      return false;
    case abi::PT_WORK_BEGIN:
      return DecodeWork(ReadRecord<abi::pt_pointer_record>(record), event);
    case abi::PT_GUARD_END:
      event->type = EventType::kGuardEnd;
      event->value = ReadRecord<abi::pt_pointer_record>(record).value;
      event->unwound = head.site != 0;
      break;
    case abi::PT_FRAME_END: {
      const auto pair = ReadRecord<abi::pt_pair_record>(record);
      event->type = EventType::kFrameEnd;
      event->value = pair.handle;
      event->object = pair.object;
      break;
    }
    case abi::PT_LOSS:
      event->type = EventType::kLoss;
      event->value = ReadRecord<abi::pt_pointer_record>(record).value;
      NoteLoss(event->value);
      python_.OnLoss(head.tid);
      scripts_.OnLoss(head.tid);
      group_calls_.OnLoss(head.tid);
      break;
    case abi::PT_LOSS_ANYWHERE:
      NoteLoss(ReadRecord<abi::pt_pointer_record>(record).value);
      event->type = EventType::kGap;
      ++ledger_->gaps;
      python_.OnLossAnywhere();
      scripts_.OnLossAnywhere();
      group_calls_.OnLossAnywhere();
      break;
    case abi::PT_EXEC:
      event->type = EventType::kExec;
      break;
    case abi::PT_THREAD_EXIT:
      event->type = EventType::kThreadExit;
      event->value = ReadRecord<abi::pt_exit_record>(record).group_dead;
      system_.OnThreadExit(event->pid, event->tid, event->time_ns);
      break;
    case abi::PT_ALLOCATION:
      event->stack = kNoStack;
      [[fallthrough]];
    case abi::PT_STACKED_ALLOCATION:
      event->type = EventType::kAllocation;
      event->value = ReadRecord<abi::pt_pointer_record>(record).value;
      event->object = BlockAddress(head);
      break;
    case abi::PT_FREE:
      event->stack = kNoStack;
      [[fallthrough]];
    case abi::PT_STACKED_FREE:
      event->type = EventType::kFree;
      event->object = BlockAddress(head);
      break;
    case abi::PT_DEVICE_MEMORY:
    case abi::PT_OUT_OF_MEMORY: {
      const auto memory = ReadRecord<abi::pt_memory_record>(record);
      event->type =
          head.kind == abi::PT_DEVICE_MEMORY ? EventType::kDeviceMemory : EventType::kOutOfMemory;
      event->value = static_cast<uint64_t>(memory.bytes);
      event->object = memory.address;
      if (memory.is_stacked == 0) event->stack = kNoStack;
      event->label = DeviceLabel(memory.device_type, memory.device_index);
      break;
    }
    case abi::PT_SEQUENCE:
      event->type = EventType::kSequence;
      event->value = SequencePlus1(ReadRecord<abi::pt_pointer_record>(record).value);
      break;
    case abi::PT_NODE_FORWARD:
      return DecodeNodeForward(ReadRecord<abi::pt_pair_record>(record), event);
    case abi::PT_THREAD_NUMBER:
      event->type = EventType::kThreadNumber;
      event->value = ReadRecord<abi::pt_pointer_record>(record).value;
      break;
    case abi::PT_COST:  // never in a capture, so that its least size is 0
    case abi::PT_COST_AGAIN:
    case abi::PT_TEXT_MORE:
    case abi::PT_INPUTS:  // these: see Decode
    case abi::PT_INPUTS_MORE:
    case abi::PT_SPILLED_INPUTS:
    case abi::PT_KEYWORDS:
    case abi::PT_PYTHON_CODE:
    case abi::PT_PYTHON_TEXT:
    case abi::PT_PYTHON_STACK:
    case abi::PT_PYTHON_MODULE:
    case abi::PT_SCRIPT_STACK:
    case abi::PT_SAMPLE:
    case abi::PT_SAMPLE_FUNCTION:
    case abi::PT_SAMPLE_FRAME:
    case abi::PT_SYSTEM_CALL:
    case abi::PT_OFF_CPU:
    case abi::PT_FAULT:
    case abi::PT_REQUEST:
    case abi::PT_SYSTEM_FILE:
    case abi::PT_WAKER:
    case abi::PT_FORK:
      return false;  // for the recorder; nothing to nest
  }
  return true;
}

namespace {

bool MayHaveInputs(EventType type) {
  return type == EventType::kBegin || type == EventType::kGuardBegin ||
         type == EventType::kFrameBegin || type == EventType::kAnnotationBegin;
}

}  // namespace

void Decoder::Decode(std::span<const std::byte> records, std::vector<Event>* events) {
  while (!records.empty()) {
    ++ledger_->records;
    pt_record head;
    if (records.size() < sizeof(head)) {
      ++ledger_->malformed;
      return;
    }
    std::memcpy(&head, records.data(), sizeof(head));
    const size_t bytes = size_t{head.words} * 8;
    if (bytes < sizeof(head) || bytes > records.size()) {
      // Without a size there is no next record: the rest of the block is one malformed record.
      ++ledger_->malformed;
      return;
    }
    const std::span<const std::byte> record = records.first(bytes);
    records = records.subspan(bytes);
    const size_t minimum = abi::kRecordKinds[head.kind].least_bytes;
    if (minimum == 0) {
      ++ledger_->unknown;
      continue;
    }
    if (bytes < minimum || head.time_ns > static_cast<uint64_t>(kLatestMonotonicNs)) {
      ++ledger_->malformed;
      continue;
    }
    ++ledger_->decoded;
    // These records come on their own ways, and may lie between any two other records.
    const bool is_sample = (head.kind >= abi::PT_SAMPLE && head.kind <= abi::PT_SAMPLE_FRAME) ||
                           head.kind == abi::PT_WAKER;
    const bool is_system = head.kind >= abi::PT_SYSTEM_CALL && head.kind <= abi::PT_SYSTEM_FILE;
    if (is_sample || is_system) {
      if (!(is_sample ? samples_.OnRecord(record) : system_.OnRecord(record))) {
        --ledger_->decoded;
        ++ledger_->malformed;
      }
      continue;
    }
    if (!pending_names_.empty()) {
      if (head.kind == abi::PT_TEXT_MORE) {
        AppendText(head.tid, ReadRecord<abi::pt_text_more_record>(record), events);
        continue;
      }
      FinishPending(head.tid, events);
    }
    if (abi::IsOfStacks(head.kind) || head.kind == abi::PT_SCRIPT_STACK) {
      if (!TakeStack(head, record)) {
        --ledger_->decoded;
        ++ledger_->malformed;
      }
      continue;
    }
    if (head.kind >= abi::PT_INPUTS && head.kind <= abi::PT_KEYWORDS) {
      DecodeInputs(record, events);
      continue;
    }
    if (!waiting_.empty()) FinishWaiting(head.tid, {}, events);
    Event event;
    event.time_ns = static_cast<int64_t>(head.time_ns);
    event.pid = Pid{head.pid};
    event.tid = Tid{head.tid};
    event.sp = head.sp;
    event.site = head.site;
    event.stack = python_.StackOf(head.pid, head.tid);
    event.script = scripts_.Take(head);
    if (!DecodeBody(head, record, &event)) {
      const auto pending = pending_names_.find(head.tid);
      if (pending != pending_names_.end()) AddInputs(head, &pending->second.event);
      continue;
    }
    // torch does not record the modules of backward rows.
    if (IsOfBackward(event.label)) event.script = kNoScript;
    if (MayHaveInputs(event.type) && !AddInputs(head, &event)) continue;
    if (event.type == EventType::kDeviceMemory || event.type == EventType::kOutOfMemory) {
      events->push_back(DeviceTotals(event, ReadRecord<abi::pt_memory_record>(record)));
    }
    events->push_back(event);
  }
}

}  // namespace proftrace
