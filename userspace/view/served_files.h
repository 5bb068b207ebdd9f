// The fixed list of the files that a server gives out. All of them are opened before the server
// gives up its rights: a request names an entry of the list, and never a path in the file system.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/base/unique_fd.h"

namespace proftrace {

// A file to be served: pieces of text and stretches of open files, one after the other.
class ServedFile {
 public:
  // Makes an empty file. `type`: the Content-Type. `headers`: more header lines, each with its line
  // end.
  explicit ServedFile(std::string type, std::string headers = "")
      : type_(std::move(type)), headers_(std::move(headers)) {}

  void AddText(std::string text);
  // Adds a stretch of a regular file, which must not get shorter. Several served files may share
  // `fd`.
  void AddStretch(std::shared_ptr<const UniqueFd> fd, uint64_t offset, uint64_t bytes);

  const std::string& type() const { return type_; }
  const std::string& headers() const { return headers_; }
  uint64_t bytes() const { return bytes_; }

  // Sends at most `most` bytes from `offset` on without waiting. Returns how many bytes were sent;
  // 0 where the socket takes none now; -1 where nothing can be sent, with the reason in errno.
  int64_t Send(int socket, uint64_t offset, uint64_t most) const;

 private:
  struct Piece {
    uint64_t start = 0;  // offset of the piece in the served file
    uint64_t bytes = 0;
    std::string text;
    std::shared_ptr<const UniqueFd> fd;  // null: the piece is `text`
    uint64_t offset = 0;
  };

  std::string type_;
  std::string headers_;
  std::vector<Piece> pieces_;
  uint64_t bytes_ = 0;
};

class ServedFiles {
 public:
  // Adds a file. `name`: the path behind the token, as "perfetto/index.html"; "" is the first page.
  void Add(const std::string& name, ServedFile file);
  // Returns nullptr where there is no such file.
  const ServedFile* Find(std::string_view name) const;
  size_t size() const { return files_.size(); }

 private:
  absl::flat_hash_map<std::string, ServedFile> files_;
};

}  // namespace proftrace
