#include "userspace/view/ui_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <memory>
#include <string_view>
#include <utility>

#include "userspace/base/exit_status.h"
#include "userspace/base/unique_fd.h"

namespace proftrace {
namespace {

// The limits leave room: Perfetto's page of 2026 has 80 files, two folders deep.
constexpr size_t kMostFiles = 400;
constexpr int kMostDepth = 6;

// The policy of such a page: the page cannot reach the network, even if its copy was tampered with.
// WebAssembly and workers are allowed because Perfetto computes with them.
constexpr char kUiPolicy[] =
    "Content-Security-Policy: default-src 'self' data: blob:; script-src 'self' 'unsafe-inline' "
    "'unsafe-eval' 'wasm-unsafe-eval' blob:; style-src 'self' 'unsafe-inline'; worker-src 'self' "
    "blob:; connect-src 'self' data: blob:; form-action 'none'; frame-ancestors 'none'\r\n";

struct TypeOfEnding {
  std::string_view ending;
  const char* type;
};
constexpr std::array<TypeOfEnding, 11> kTypes = {{{".html", "text/html; charset=utf-8"},
                                                  {".js", "text/javascript; charset=utf-8"},
                                                  {".css", "text/css; charset=utf-8"},
                                                  {".json", "application/json"},
                                                  {".wasm", "application/wasm"},
                                                  {".png", "image/png"},
                                                  {".svg", "image/svg+xml"},
                                                  {".ico", "image/x-icon"},
                                                  {".woff2", "font/woff2"},
                                                  {".ttf", "font/ttf"},
                                                  {".txt", "text/plain; charset=utf-8"}}};

const char* TypeOfName(std::string_view name) {
  for (const TypeOfEnding& one : kTypes) {
    if (name.ends_with(one.ending)) return one.type;
  }
  return "application/octet-stream";
}

struct DirectoryCloser {
  void operator()(DIR* directory) const { closedir(directory); }
};

class FolderReader {
 public:
  FolderReader(const std::string& path, const std::string& option, ServedFiles* files)
      : path_(path), option_(option), files_(*files) {}

  absl::Status Read(UniqueFd folder, const std::string& prefix, int depth) {
    const std::unique_ptr<DIR, DirectoryCloser> directory(fdopendir(folder.get()));
    if (directory == nullptr) return Wrong(ErrnoText(errno));
    const int fd = folder.Release();
    while (const dirent* entry = readdir(directory.get())) {
      const std::string name = entry->d_name;
      if (name.starts_with('.')) continue;
      if (absl::Status status = Take(fd, name, prefix, depth); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status Wrong(const std::string& why) const {
    return Fail(ExitCode::kUsage,
                option_ + " " + path_ + ": " + why +
                    "; give the unpacked folder of the page, with its index.html, or an address");
  }

 private:
  absl::Status Take(int folder, const std::string& name, const std::string& prefix, int depth) {
    UniqueFd fd(openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat facts {};
    if (!fd.valid() && errno != ELOOP) return Wrong(name + ": " + ErrnoText(errno));
    if (!fd.valid() || fstat(fd.get(), &facts) != 0) return absl::OkStatus();
    if (S_ISDIR(facts.st_mode)) {
      if (depth == kMostDepth) return Wrong("it has too many folders in each other");
      return Read(std::move(fd), prefix + name + "/", depth + 1);
    }
    if (!S_ISREG(facts.st_mode)) return absl::OkStatus();
    if (++count_ > kMostFiles) return Wrong("it has too many files");
    ServedFile file(TypeOfName(name), kUiPolicy);
    file.AddStretch(std::make_shared<const UniqueFd>(std::move(fd)), 0,
                    static_cast<uint64_t>(facts.st_size));
    if (depth == 0 && name == "index.html") files_.Add(prefix, file);
    files_.Add(prefix + name, std::move(file));
    return absl::OkStatus();
  }

  std::string path_;
  std::string option_;
  ServedFiles& files_;
  size_t count_ = 0;
};

}  // namespace

absl::Status AddUiFolder(const std::string& path, const std::string& prefix,
                         const std::string& option, ServedFiles* files) {
  FolderReader reader(path, option, files);
  UniqueFd folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return reader.Wrong(ErrnoText(errno));
  if (absl::Status status = reader.Read(std::move(folder), prefix, 0); !status.ok()) return status;
  if (files->Find(prefix) == nullptr) return reader.Wrong("there is no index.html in it");
  return absl::OkStatus();
}

}  // namespace proftrace
