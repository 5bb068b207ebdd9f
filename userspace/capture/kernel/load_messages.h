// Keeps the messages of libbpf and of the kernel's verifier about programs that are being loaded.
// libbpf's messages are meant for its own developers, so only the ones that say why a load failed
// are kept.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace proftrace {

// Returns the reason that a log of the kernel's verifier ends with: the last line before the
// verifier's statistics. Empty when `text` has no such log.
std::string VerifierReason(std::string_view text);

// Receives libbpf's messages while it lives. There may be only one such object at a time.
class LoadMessages {
 public:
  LoadMessages();
  ~LoadMessages();
  LoadMessages(const LoadMessages&) = delete;
  LoadMessages& operator=(const LoadMessages&) = delete;

  void Clear();
  void Add(std::string_view text);

  // Returns the first message since Clear() and the verifier's reason, in parentheses with a space
  // before them, and the limits of this process's memory; empty when there is nothing to tell.
  std::string Text() const;

  // Whether `error`, of a load, means that this user may not load programs. The verifier returns
  // EACCES, too, for a program that it does not take, but then gives a reason.
  bool IsNotPermitted(int error) const;

  // Returns an error that says "`what`: the kernel does not take the programs", with the error and
  // Text().
  absl::Status Refusal(const std::string& what, int error) const;

 private:
  std::string first_;
  std::string reason_;
};

}  // namespace proftrace
