// Raw records to events. The only place where the bytes of a record are read, once, with every size
// and index checked. Bad records are counted and skipped. Not thread-safe.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bpf/abi/records.h"
#include "userspace/decode/event.h"
#include "userspace/decode/group_calls.h"
#include "userspace/decode/input_decoder.h"
#include "userspace/decode/python_decoder.h"
#include "userspace/decode/sample_decoder.h"
#include "userspace/decode/script_decoder.h"
#include "userspace/decode/system_decoder.h"
#include "userspace/model/label.h"
#include "userspace/stats/ledger.h"
#include "userspace/wire/metadata.h"

namespace proftrace {

class Decoder {
 public:
  // `metadata` must outlive the decoder. Counts into `ledger`: records, decoded, unknown,
  // malformed, read_failed, names_cut, unnamed. `spill_directory`: as TimelineBuilder's.
  Decoder(const CaptureMetadata& metadata, Ledger* ledger, const std::string& spill_directory = "");

  // Appends the events of `records` to `events`. A record cut off at the end of `records` counts as
  // malformed.
  void Decode(std::span<const std::byte> records, std::vector<Event>* events);

  // Adds the events that still waited for more of their name. To be called at the end of the
  // records.
  void Flush(std::vector<Event>* events);

  const std::vector<Label>& labels() const { return labels_; }
  // Return what Event::inputs indexes, when all events are decoded. LastInput() gives the last one
  // alone of several inputs.
  InputsId LastInput(InputsId inputs) { return inputs_.LastOf(inputs); }
  std::vector<InputDecoder::Unread> unread_inputs() const { return inputs_.unread(); }
  std::vector<OperatorInputs> TakeInputs() { return inputs_.TakeTable(); }
  // Return what Event::stack and the other events' numbers index, when all events are decoded.
  PythonDecoder::Tables TakeStacks();
  SampleDecoder::Tables TakeSamples();
  SystemDecoder::Tables TakeSystem() { return system_.TakeTables(); }
  const ScriptDecoder& scripts() const { return scripts_; }
  std::vector<std::string> TakeScripts() { return scripts_.TakeTexts(metadata_); }

 private:
  // One process from `from_ns` on. A process that execs, or a pid that is used again, has several.
  struct Process {
    int64_t probes_begin_ns = 0;
    int64_t probes_on_ns = 0;
    uint32_t plan = 0;
    uint32_t image = 0;
    InputForm input_form;
  };

  const Process* FindProcess(uint32_t pid, int64_t time_ns);
  const Target* TargetOf(Pid pid) const;
  // Folders of its Python modules.
  std::vector<std::string> PathsOf(Pid pid) const;
  EventLabel InternLabel(const Label& label);
  EventLabel SiteLabel(const Process& process, uint16_t site) const;
  EventLabel BoxedLabel(const Process& process, uint64_t operator_def);
  EventLabel NodeLabel(const Process& process, uint16_t site, const abi::pt_node_record& record);
  // Decodes a node; false as in DecodeAnnotation().
  bool DecodeNode(const abi::pt_node_record& record, const Process& process, Event* event);
  // An annotation whose name is longer than one record, and what has come of it.
  struct PendingName {
    Event event;
    std::string text;
    uint32_t length = 0;  // kLengthNotTold: up to the first part that could be longer
    Label label;          // its name comes before the text
  };
  static constexpr uint32_t kLengthNotTold = 0xffffffff;

  // Decodes an annotation. False when the rest of the name is to follow: the event is kept until it
  // is there.
  bool DecodeAnnotation(const abi::pt_text_record& record, const Process& process, Event* event);
  EventLabel NamedLabel(const Process& process, uint16_t site, uint64_t symbol_and_scope);
  bool DecodeGuard(const abi::pt_guard_record& record, const Process& process, Event* event);
  // Decodes the work of a process group. False when torch shows no row for it: it has no title.
  bool DecodeWork(const abi::pt_pointer_record& record, Event* event);
  // Decodes a node's forward. False when what was read cannot be a node's.
  bool DecodeNodeForward(const abi::pt_pair_record& record, Event* event);
  // Counts the records that a PT_LOSS announces where the recorder was ended before it could tell
  // its losses.
  void NoteLoss(uint64_t records) {
    if (!metadata_.has_end) ledger_->ring_lost += records;
  }
  // `label`: its name comes before the text.
  EventLabel TextLabel(std::string text, uint32_t length, Label label);
  void AppendText(uint32_t tid, const abi::pt_text_more_record& record, std::vector<Event>* events);
  // Finishes the pending annotation of `tid`, of which another record came: it is as complete as it
  // gets.
  void FinishPending(uint32_t tid, std::vector<Event>* events);
  std::string NodeName(const ImageTable& image, const abi::pt_node_record& record) const;
  // Decodes a record of inputs, or of what a begin waited for.
  void DecodeInputs(std::span<const std::byte> record, std::vector<Event>* events);
  // Gives an event its inputs. False when the event is kept: some of its inputs follow.
  bool AddInputs(const abi::pt_record& head, Event* event);
  // Finishes what `tid` waits for, of which another record came: the rest is not coming.
  void FinishWaiting(uint32_t tid, std::span<const uint64_t> doubles, std::vector<Event>* events);
  // Takes a record of what comes before a row: a stack, a place in TorchScript. False: it is
  // malformed.
  bool TakeStack(const abi::pt_record& head, std::span<const std::byte> record);
  bool IsOfBackward(EventLabel label) const;
  // Fills `event` from the record of its kind; false when the record is malformed.
  bool DecodeBody(const abi::pt_record& head, std::span<const std::byte> record, Event* event);
  void DecodeBegin(const abi::pt_record& head, std::span<const std::byte> record,
                   const Process& process, Event* event);

  const CaptureMetadata& metadata_;
  Ledger* ledger_;
  std::vector<Label> labels_;
  absl::flat_hash_map<Label, EventLabel> label_ids_;
  absl::flat_hash_map<uint32_t, std::vector<Process>> processes_;  // by pid, in order of time
  std::vector<std::vector<EventLabel>> site_labels_;               // [plan][site]
  bool are_works_marked_ = false;  // old captures do not tell which rows are works
  absl::flat_hash_map<std::pair<uint32_t, uint64_t>, EventLabel>
      boxed_labels_;  // by image, address
  absl::flat_hash_map<std::string, EventLabel> node_labels_;
  absl::flat_hash_map<uint32_t, PendingName> pending_names_;  // by tid
  InputDecoder inputs_;
  GroupCalls group_calls_;
  PythonDecoder python_;
  ScriptDecoder scripts_;
  SampleDecoder samples_;
  SystemDecoder system_;
  absl::flat_hash_map<uint32_t, Event> waiting_;  // for floating-point inputs, by tid
  struct WorkTitle {
    EventLabel label = kUnnamedLabel;
    InputsId inputs = kNoInputs;
  };
  // By process and address: works that were made and not yet executed.
  absl::flat_hash_map<std::pair<uint32_t, uint64_t>, WorkTitle> work_titles_;
  uint32_t last_pid_ = 0;
  const std::vector<Process>* last_processes_ = nullptr;
};

}  // namespace proftrace
