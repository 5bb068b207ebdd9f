#include "userspace/sandbox/messages.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace proftrace {
namespace {

constexpr uint64_t kMostBytesOfMessage = uint64_t{256} << 20;

struct Header {
  uint32_t kind = 0;
  int32_t code = 0;
  uint64_t bytes = 0;
};

// The space for one descriptor beside a message, aligned as the kernel has it.
union Control {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
};

bool SendAll(int socket, const char* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t sent = send(socket, data, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    data += sent;
    bytes -= static_cast<size_t>(sent);
  }
  return true;
}

bool ReceiveAll(int socket, char* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = recv(socket, data, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    data += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

UniqueFd DescriptorIn(msghdr* message) {
  UniqueFd fd;
  for (cmsghdr* part = CMSG_FIRSTHDR(message); part != nullptr; part = CMSG_NXTHDR(message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    int number = -1;
    std::memcpy(&number, CMSG_DATA(part), sizeof(number));
    fd = UniqueFd(number);
  }
  return fd;
}

}  // namespace

ssize_t SendWithDescriptor(int socket, iovec* parts, size_t count, int fd) {
  Control control{};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = count;
  if (fd >= 0) {
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof(control.bytes);
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &fd, sizeof(fd));
  }
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent;
}

ssize_t ReceiveWithDescriptor(int socket, iovec part, int flags, UniqueFd* fd) {
  Control control{};
  msghdr received{};
  received.msg_iov = &part;
  received.msg_iovlen = 1;
  received.msg_control = control.bytes;
  received.msg_controllen = sizeof(control.bytes);
  ssize_t got = 0;
  do {
    got = recvmsg(socket, &received, flags | MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got > 0) *fd = DescriptorIn(&received);
  return got;
}

bool SendMessage(int socket, MessageKind kind, int32_t code, std::string_view bytes, int fd) {
  Header header{static_cast<uint32_t>(kind), code, bytes.size()};
  // All parts are sent by one call, because the other side would wake up for each part otherwise.
  iovec parts[] = {{&header, sizeof(header)}, {const_cast<char*>(bytes.data()), bytes.size()}};
  const ssize_t sent = SendWithDescriptor(socket, parts, bytes.empty() ? 1 : 2, fd);
  if (sent <= 0) return false;
  auto done = static_cast<size_t>(sent);
  if (done < sizeof(header)) {
    if (!SendAll(socket, reinterpret_cast<const char*>(&header) + done, sizeof(header) - done)) {
      return false;
    }
    done = sizeof(header);
  }
  const size_t sent_of_bytes = done - sizeof(header);
  return SendAll(socket, bytes.data() + sent_of_bytes, bytes.size() - sent_of_bytes);
}

std::optional<Message> ReceiveMessage(int socket) {
  Header header;
  Message message;
  const ssize_t got = ReceiveWithDescriptor(socket, {&header, sizeof(header)}, 0, &message.fd);
  if (got <= 0) return std::nullopt;
  const auto done = static_cast<size_t>(got);
  if (!ReceiveAll(socket, reinterpret_cast<char*>(&header) + done, sizeof(header) - done) ||
      header.bytes > kMostBytesOfMessage) {
    return std::nullopt;
  }
  message.kind = static_cast<MessageKind>(header.kind);
  message.code = header.code;
  // The text is received in pieces, so that memory is allocated only for bytes that have arrived,
  // not for a length that the sender claims.
  constexpr uint64_t kPieceBytes = uint64_t{1} << 20;
  while (message.bytes.size() < header.bytes) {
    const size_t before = message.bytes.size();
    message.bytes.resize(before + std::min<uint64_t>(kPieceBytes, header.bytes - before));
    if (!ReceiveAll(socket, message.bytes.data() + before, message.bytes.size() - before)) {
      return std::nullopt;
    }
  }
  return message;
}

}  // namespace proftrace
