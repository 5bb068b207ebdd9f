// The fixed list of what a server gives out. Everything in it is open before the server gives up
// its rights: a request names an entry of the list, and never leads to a path.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/base/unique_fd.h"

namespace proftrace {

// What a file gives: pieces of text and stretches of open files, one after the other.
class ServedFile {
 public:
  // `type`: the Content-Type; `headers`: more header lines, each with its line end.
  explicit ServedFile(std::string type, std::string headers = "")
      : type_(std::move(type)), headers_(std::move(headers)) {}

  void AddText(std::string text);
  // `fd` is a regular file, which must not get shorter; several files may share it.
  void AddStretch(std::shared_ptr<const UniqueFd> fd, uint64_t offset, uint64_t bytes);

  const std::string& type() const { return type_; }
  const std::string& headers() const { return headers_; }
  uint64_t bytes() const { return bytes_; }

  // Sends what fits of the bytes from `offset` on, at most `most`. Returns how many went out; 0:
  // not one fits now; -1: errno says why nothing can be sent.
  int64_t Send(int socket, uint64_t offset, uint64_t most) const;

 private:
  struct Piece {
    uint64_t start = 0;  // in the file that is given out
    uint64_t bytes = 0;
    std::string text;
    std::shared_ptr<const UniqueFd> fd;  // none: `text`
    uint64_t offset = 0;
  };

  std::string type_;
  std::string headers_;
  std::vector<Piece> pieces_;
  uint64_t bytes_ = 0;
};

class ServedFiles {
 public:
  // `name`: what follows the token in the path, "perfetto/index.html"; "" is the first page.
  void Add(const std::string& name, ServedFile file);
  // Returns nullptr where there is no such file.
  const ServedFile* Find(std::string_view name) const;
  size_t size() const { return files_.size(); }

 private:
  absl::flat_hash_map<std::string, ServedFile> files_;
};

}  // namespace proftrace
