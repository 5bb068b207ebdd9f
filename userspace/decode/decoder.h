// Turns raw records into events. The bytes of a record are read here, once, with every size and
// index checked. Bad records are counted and skipped. Not thread-safe.
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

  // Adds the events that were kept because more of their name or inputs was to follow. To be called
  // at the end of the records.
  void Flush(std::vector<Event>* events);

  const std::vector<Label>& labels() const { return labels_; }
  // TakeInputs() returns the table that Event::inputs is an index into, when all events are
  // decoded. LastInput() returns, for some inputs, those with the last input alone.
  InputsId LastInput(InputsId inputs) { return inputs_.LastOf(inputs); }
  std::vector<InputDecoder::Unread> unread_inputs() const { return inputs_.unread(); }
  std::vector<OperatorInputs> TakeInputs() { return inputs_.TakeTable(); }
  // Return the tables that Event::stack and other numbers in events are indices into, when all
  // events are decoded.
  PythonDecoder::Tables TakeStacks();
  SampleDecoder::Tables TakeSamples();
  SystemDecoder::Tables TakeSystem() { return system_.TakeTables(); }
  const ScriptDecoder& scripts() const { return scripts_; }
  std::vector<std::string> TakeScripts() { return scripts_.TakeTexts(metadata_); }

 private:
  // One program of a process. A pid has several of these after an exec, or when the pid is used
  // again.
  struct Process {
    int64_t probes_begin_ns = 0;
    int64_t probes_on_ns = 0;
    uint32_t plan = 0;
    uint32_t image = 0;
    InputForm input_form;
  };

  const Process* FindProcess(uint32_t pid, int64_t time_ns);
  const Target* TargetOf(Pid pid) const;
  // Returns the folders of the process's Python modules.
  std::vector<std::string> PathsOf(Pid pid) const;
  EventLabel InternLabel(const Label& label);
  EventLabel SiteLabel(const Process& process, uint16_t site) const;
  EventLabel BoxedLabel(const Process& process, uint64_t operator_def);
  EventLabel NodeLabel(const Process& process, uint16_t site, const abi::pt_node_record& record);
  // Decodes a node. Returns false as DecodeAnnotation() does.
  bool DecodeNode(const abi::pt_node_record& record, const Process& process, Event* event);
  // An annotation whose name is longer than one record, with the part of the name that has come.
  struct PendingName {
    Event event;
    std::string text;
    uint32_t length = 0;  // kLengthNotTold: the name ends with the first part that could be longer
    Label label;          // its name is put before the text
  };
  static constexpr uint32_t kLengthNotTold = 0xffffffff;

  // Decodes an annotation. Returns false where more of the name is to follow: the event is then
  // kept until the whole name has come.
  bool DecodeAnnotation(const abi::pt_text_record& record, const Process& process, Event* event);
  EventLabel NamedLabel(const Process& process, uint16_t site, uint64_t symbol_and_scope);
  bool DecodeGuard(const abi::pt_guard_record& record, const Process& process, Event* event);
  // Keeps a work's title and inputs for its row. Returns false where the title could not be read.
  bool DecodeWorkTitle(const abi::pt_guard_record& record, const Process& process, Event* event);
  // Decodes the work of a process group. Returns false where torch shows no row for the work,
  // because it has no title.
  bool DecodeWork(const abi::pt_pointer_record& record, Event* event);
  // Decodes the forward thread and sequence number of a node. Returns false where the values are
  // impossible for a node.
  bool DecodeNodeForward(const abi::pt_pair_record& record, Event* event);
  // Counts the records that a PT_LOSS announces, in captures whose recorder was killed before it
  // could write its own count.
  void NoteLoss(uint64_t records) {
    if (!metadata_.has_end) ledger_->ring_lost += records;
  }
  // Returns the label of an annotation. The name of `label` is put before the text.
  EventLabel TextLabel(std::string text, uint32_t length, Label label);
  void AppendText(uint32_t tid, const abi::pt_text_more_record& record, std::vector<Event>* events);
  // Adds the pending annotation of `tid` with the name that has come. To be called when the name is
  // whole, or when a record of something else shows that the rest is missing.
  void FinishPending(uint32_t tid, std::vector<Event>* events);
  std::string NodeName(const ImageTable& image, const abi::pt_node_record& record) const;
  // Decodes a record of inputs: those of the next begin, or the floating-point values that a begin
  // waited for.
  void DecodeInputs(std::span<const std::byte> record, std::vector<Event>* events);
  // Gives an event its inputs. Returns false where the event is kept because some of its inputs
  // follow.
  bool AddInputs(const abi::pt_record& head, Event* event);
  // Adds the event of `tid` that waited for inputs, with the inputs that have come.
  void FinishWaiting(uint32_t tid, std::span<const uint64_t> doubles, std::vector<Event>* events);
  // Takes a record that belongs to the next row: a stack or a place in TorchScript. Returns false
  // where the record is malformed.
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
  bool are_works_marked_ = false;  // false in old captures, which do not tell which rows are works
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
  // Events that wait for floating-point inputs, by tid.
  absl::flat_hash_map<uint32_t, Event> waiting_;
  struct WorkTitle {
    EventLabel label = kUnnamedLabel;
    InputsId inputs = kNoInputs;
  };
  // The works that were made and not yet executed, by process and address.
  absl::flat_hash_map<std::pair<uint32_t, uint64_t>, WorkTitle> work_titles_;
  uint32_t last_pid_ = 0;
  const std::vector<Process>* last_processes_ = nullptr;
};

}  // namespace proftrace
