// Carries the messages between a worker and its parent: texts, some with a descriptor.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "userspace/base/unique_fd.h"

namespace proftrace {

// Send and receive as sendmsg(2) and recvmsg(2) do, with a descriptor beside the bytes; -1: none is
// sent. Both take no lock and allocate no memory, so that a forked child of a process with threads
// may call them.
ssize_t SendWithDescriptor(int socket, iovec* parts, size_t count, int fd);
ssize_t ReceiveWithDescriptor(int socket, iovec part, int flags, UniqueFd* fd);

enum class MessageKind : uint32_t {
  kQuestion = 1,  // asked by the worker
  kAnswer = 2,
  kResult = 3,   // the last message of the worker
  kFailure = 4,  // of the worker: says why there is no result
};

struct Message {
  MessageKind kind = MessageKind::kAnswer;
  int32_t code = 0;  // of a failure: its exit code
  std::string bytes;
  UniqueFd fd;  // may be none
};

// Sends a message. False: the other side is gone.
bool SendMessage(int socket, MessageKind kind, int32_t code, std::string_view bytes, int fd);

// Receives a message; nullopt: the other side is gone, or has sent something that is no message or
// is longer than any real message.
std::optional<Message> ReceiveMessage(int socket);

}  // namespace proftrace
