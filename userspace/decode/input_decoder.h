// Puts together the inputs of operator calls: records of inputs come before the begin that they
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
  // Different inputs are kept until they take this many bytes. In later inputs each number that was
  // passed is replaced by a *; shapes stay as they are.
  static constexpr size_t kMostBytes = size_t{256} << 20;

  // Counts into `ledger`: inputs_unread.
  explicit InputDecoder(Ledger* ledger, size_t most_bytes = kMostBytes)
      : ledger_(ledger), most_bytes_(most_bytes) {}

  // Takes a PT_INPUTS, PT_KEYWORDS or PT_INPUTS_MORE; `record` is as long as its head says.
  void OnRecord(std::span<const std::byte> record);

  // Takes the inputs in a PT_OPERATOR_CALL, which is also a begin; `facts` as in pt_call_record.
  void OnCall(const abi::pt_record& head, uint64_t facts, std::span<const std::byte> record);

  // Returns whether a keyword says that the row that begins is an annotation.
  bool HasUserScope(const abi::pt_record& begin) const;

  // Returns the inputs of a begin on thread `tid`, kNoInputs where none came before it. `waits` is
  // set where some inputs are to follow: FinishWaiting() then returns the begin's inputs.
  InputsId Take(const abi::pt_record& begin, const InputForm& form, bool* waits);
  InputsId FinishWaiting(uint32_t tid, std::span<const uint64_t> doubles);

  // Returns `inputs` with `keywords` appended. The result is not shared with equal inputs.
  InputsId WithKeywords(InputsId inputs, std::vector<KeywordValue> keywords);

  // Returns inputs that have only the last input of `inputs`.
  InputsId LastOf(InputsId inputs);

  // Calls whose inputs were not read, by the reason that the recorder gave. Calls without a reason
  // are not here.
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
    std::optional<InputForm> form;  // set where the call waits for floating-point values
  };
  void OnKeywords(const abi::pt_inputs_record& head, std::vector<uint64_t> words);
  void NoteUnread(uint64_t flags);
  // Returns inputs that stand for some that there is no room for; kNoInputs: there is no room for
  // these either.
  InputsId GroupOf(OperatorInputs inputs);
  InputsId Intern(const Pending& pending, std::span<const uint64_t> doubles, const InputForm& form);

  Ledger* ledger_;
  std::vector<OperatorInputs> table_ = {OperatorInputs()};
  size_t most_bytes_;
  size_t table_bytes_ = 0;
  absl::flat_hash_map<std::string, InputsId> groups_;  // by their texts
  uint64_t grouped_ = 0;                               // number of calls whose inputs are a group
  std::array<uint64_t, 4> unread_{};  // by the number of the flag's bit (enum pt_inputs_flag)
  // by the values and the form that the texts depend on
  absl::flat_hash_map<std::string, InputsId> ids_;
  absl::flat_hash_map<uint32_t, Pending> pending_;  // by tid
  absl::flat_hash_map<uint32_t, InputsId> last_;    // results of LastOf(), by Raw() of its argument
  std::string key_;
};

}  // namespace proftrace
