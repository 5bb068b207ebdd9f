#include "userspace/fleet_questions/scratch_folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/shown_text.h"

namespace proftrace {
namespace {

constexpr int kMostNames = 100;  // the most names that are tried, because a name may be taken

bool IsPlain(std::string_view path) {
  return path.starts_with('/') && std::all_of(path.begin(), path.end(), [](char character) {
           return std::isalnum(static_cast<unsigned char>(character)) != 0 || character == '/' ||
                  character == '.' || character == '_' || character == '-';
         });
}

absl::Status CannotMake(const std::string& what, const std::string& why) {
  return Fail(ExitCode::kOutputFailed,
              "cannot make " + ShownText(what) + ": " + why + "; name another directory by TMPDIR");
}

}  // namespace

absl::StatusOr<std::unique_ptr<ScratchFolder>> ScratchFolder::Make() {
  const char* named = getenv("TMPDIR");
  const std::string parent = named != nullptr && IsPlain(named) ? named : "/tmp";
  auto opened = GuardedFolder::Open(parent);
  if (!opened.ok()) return CannotMake(parent, std::string(opened.status().message()));
  for (int i = 0; i < kMostNames; ++i) {
    std::string name =
        "proftrace-fleet-" + std::to_string(getpid()) + "-" + std::to_string(MonotonicNs());
    bool is_made = false;
    auto folder = opened->Make(name, &is_made);
    if (!folder.ok()) {
      return CannotMake(parent + "/" + name, std::string(folder.status().message()));
    }
    if (!is_made) continue;
    return std::unique_ptr<ScratchFolder>(
        new ScratchFolder(*std::move(opened), *std::move(folder), std::move(name)));
  }
  return CannotMake(parent + "/proftrace-fleet", "all names are taken");
}

ScratchFolder::ScratchFolder(GuardedFolder parent, GuardedFolder folder, std::string name)
    : parent_(std::move(parent)),
      folder_(std::move(folder)),
      name_(std::move(name)),
      path_(parent_.path() + "/" + name_) {}

ScratchFolder::~ScratchFolder() {
  folder_.RemoveContents();
  parent_.RemoveFolder(name_);
}

absl::StatusOr<std::string> ScratchFolder::Link(const std::string& directory) {
  std::error_code error;
  const std::filesystem::path target = std::filesystem::absolute(directory, error);
  const std::string name = "d" + std::to_string(links_++);
  if (error || !folder_.MakeLink(name, target.string())) {
    return CannotMake(path_ + "/" + name, ErrnoText(errno));
  }
  return path_ + "/" + name;
}

absl::StatusOr<std::string> ScratchFolder::Write(const std::string& name, const std::string& text) {
  folder_.Remove(name);
  const UniqueFd file = folder_.Create(name, O_WRONLY);
  if (!file.valid() || !WriteFully(file.get(), text)) {
    return CannotMake(path_ + "/" + name, ErrnoText(errno));
  }
  return path_ + "/" + name;
}

}  // namespace proftrace
