#include "userspace/cli/top_messages.h"

#include <unistd.h>

#include <cerrno>

namespace proftrace {

bool SendTopMessage(int socket, char kind, std::string_view text) {
  std::string bytes(1, kind);
  bytes += text.substr(0, kMostTopMessageBytes - 1);
  while (true) {
    const ssize_t sent = write(socket, bytes.data(), bytes.size());
    if (sent >= 0) return true;
    if (errno != EINTR) return false;
  }
}

std::string ReceiveTopMessage(int socket) {
  std::string bytes(kMostTopMessageBytes, '\0');
  while (true) {
    const ssize_t got = read(socket, bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    bytes.resize(got < 0 ? 0 : static_cast<size_t>(got));
    return bytes;
  }
}

}  // namespace proftrace
