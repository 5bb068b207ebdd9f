#include "userspace/view/served_files.h"

#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace proftrace {

void ServedFile::AddText(std::string text) {
  const uint64_t bytes = text.size();
  if (bytes == 0) return;
  pieces_.push_back({bytes_, bytes, std::move(text), nullptr, 0});
  bytes_ += bytes;
}

void ServedFile::AddStretch(std::shared_ptr<const UniqueFd> fd, uint64_t offset, uint64_t bytes) {
  if (bytes == 0) return;
  pieces_.push_back({bytes_, bytes, "", std::move(fd), offset});
  bytes_ += bytes;
}

int64_t ServedFile::Send(int socket, uint64_t offset, uint64_t most) const {
  const auto after =
      std::upper_bound(pieces_.begin(), pieces_.end(), offset,
                       [](uint64_t at, const Piece& piece) { return at < piece.start; });
  if (after == pieces_.begin() || most == 0) return 0;
  const Piece& piece = *(after - 1);
  const uint64_t inside = offset - piece.start;
  if (inside >= piece.bytes) return 0;
  const uint64_t bytes = std::min(most, piece.bytes - inside);
  ssize_t sent = 0;
  if (piece.fd == nullptr) {
    sent = send(socket, piece.text.data() + inside, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
  } else {
    auto at = static_cast<off_t>(piece.offset + inside);
    sent = sendfile(socket, piece.fd->get(), &at, bytes);
    if (sent == 0) {  // another program has shortened the file
      errno = EIO;
      return -1;
    }
  }
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  return sent;
}

void ServedFiles::Add(const std::string& name, ServedFile file) {
  files_.insert_or_assign(name, std::move(file));
}

const ServedFile* ServedFiles::Find(std::string_view name) const {
  const auto it = files_.find(std::string(name));
  return it == files_.end() ? nullptr : &it->second;
}

}  // namespace proftrace
