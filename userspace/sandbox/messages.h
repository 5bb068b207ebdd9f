// Sends what a worker and its parent tell each other: texts, and descriptors with them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "userspace/base/unique_fd.h"

namespace proftrace {

enum class MessageKind : uint32_t {
  kQuestion = 1,  // of the worker
  kAnswer = 2,
  kResult = 3,   // of the worker, its last one
  kFailure = 4,  // of the worker: why there is no result
};

struct Message {
  MessageKind kind = MessageKind::kAnswer;
  int32_t code = 0;  // of a failure: its exit code
  std::string bytes;
  UniqueFd fd;  // may be none
};

// Sends a message. False: the other side is gone.
bool SendMessage(int socket, MessageKind kind, int32_t code, std::string_view bytes, int fd);

// Receives a message; nullopt: the other side is gone, or what it sent is no message, or a longer
// one than anybody has to tell.
std::optional<Message> ReceiveMessage(int socket);

}  // namespace proftrace
