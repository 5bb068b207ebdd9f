// Keeps what libbpf and the kernel's verifier say of programs that are being loaded. libbpf's
// messages are for its own developers: only those that say why a load failed are kept.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace proftrace {

// Returns the reason that a log of the kernel's verifier ends with: its last line before those that
// count. Empty when `text` has no such log.
std::string VerifierReason(std::string_view text);

// While it lives, libbpf's messages come here. One at a time.
class LoadMessages {
 public:
  LoadMessages();
  ~LoadMessages();
  LoadMessages(const LoadMessages&) = delete;
  LoadMessages& operator=(const LoadMessages&) = delete;

  void Clear();
  void Add(std::string_view text);

  // Returns the first message since Clear() and the verifier's reason, in parentheses with a space
  // before them, and what limits this process's memory; empty when there is none of it.
  std::string Text() const;

  // Whether `error`, of a load, means that this user may not load programs. The verifier says
  // EACCES, too, of a program that it does not take, and then gives a reason.
  bool IsNotPermitted(int error) const;

  // "`what`: the kernel does not take the programs", the error and Text().
  absl::Status Refusal(const std::string& what, int error) const;

 private:
  std::string first_;
  std::string reason_;
};

}  // namespace proftrace
