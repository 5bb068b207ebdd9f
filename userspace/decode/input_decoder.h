// Puts together what operators are called with: records of inputs come before the begin that they
// belong to, and floating-point arguments after it. Equal inputs are one entry. Not thread-safe.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bpf/abi/records.h"
#include "userspace/decode/input_format.h"
#include "userspace/model/operator_inputs.h"
#include "userspace/stats/ledger.h"

namespace proftrace {

class InputDecoder {
 public:
  // Different inputs are kept until they take so many bytes. In later ones each number that was
  // passed is a *, and shapes are what they are.
  static constexpr size_t kMostBytes = size_t{256} << 20;

  // Counts into `ledger`: inputs_unread.
  explicit InputDecoder(Ledger* ledger, size_t most_bytes = kMostBytes)
      : ledger_(ledger), most_bytes_(most_bytes) {}

  // Takes a PT_INPUTS, PT_KEYWORDS or PT_INPUTS_MORE; `record` is as long as its head says.
  void OnRecord(std::span<const std::byte> record);

  // Takes a PT_OPERATOR_CALL, which is a begin too; `facts` as in pt_call_record.
  void OnCall(const abi::pt_record& head, uint64_t facts, std::span<const std::byte> record);

  // Whether a keyword says that the row that begins is an annotation.
  bool HasUserScope(const abi::pt_record& begin) const;

  // Returns the inputs of a begin on thread `tid`, kNoInputs where none came before it. `waits`:
  // some of them follow; the begin's inputs are then what FinishWaiting() gives.
  InputsId Take(const abi::pt_record& begin, const InputForm& form, bool* waits);
  InputsId FinishWaiting(uint32_t tid, std::span<const uint64_t> doubles);

  // Returns these inputs with keyword values behind their own. Unlike others they are not shared.
  InputsId WithKeywords(InputsId inputs, std::vector<KeywordValue> keywords);

  // Returns the last one alone of several inputs.
  InputsId LastOf(InputsId inputs);

  // Calls without inputs, and why: those of them that the recorder gave a reason for.
  struct Unread {
    uint64_t calls;
    std::string_view reason;
  };
  std::vector<Unread> unread() const;

  // Returns the inputs by InputsId.
  std::vector<OperatorInputs> TakeTable() { return std::move(table_); }

 private:
  struct PendingKeywords {
    uint32_t count = 0;
    uint32_t words = 0;
    bool tell_scope = false;
    std::vector<uint64_t> values;
  };
  // The inputs of one call, as far as they have come.
  struct Pending {
    uint32_t sp = 0;
    uint16_t site = 0;
    uint32_t count = 0;
    uint32_t words = 0;
    bool has_spilled = false;
    std::vector<uint64_t> values;
    std::optional<PendingKeywords> keywords;
    std::optional<InputForm> form;  // of those that wait for doubles
  };
  void OnKeywords(const abi::pt_inputs_record& head, std::vector<uint64_t> words);
  void NoteUnread(uint64_t flags);
  // Returns the inputs that stand for those for which there is no room; kNoInputs: there is none
  // for these either.
  InputsId GroupOf(OperatorInputs inputs);
  InputsId Intern(const Pending& pending, std::span<const uint64_t> doubles, const InputForm& form);

  Ledger* ledger_;
  std::vector<OperatorInputs> table_ = {OperatorInputs()};
  size_t most_bytes_;
  size_t table_bytes_ = 0;
  absl::flat_hash_map<std::string, InputsId> groups_;  // by their texts
  uint64_t grouped_ = 0;                               // calls
  std::array<uint64_t, 4> unread_{};  // by the number of the flag's bit (enum pt_inputs_flag)
  absl::flat_hash_map<std::string, InputsId> ids_;  // by all that the texts depend on
  absl::flat_hash_map<uint32_t, Pending> pending_;  // by tid
  absl::flat_hash_map<uint32_t, InputsId> last_;  // what LastOf() has given, by Raw() of its input
  std::string key_;
};

}  // namespace proftrace
