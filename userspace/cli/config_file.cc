#include "userspace/cli/config_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "userspace/base/exit_status.h"
#include "userspace/base/text.h"
#include "userspace/base/unique_fd.h"
#include "userspace/cli/option_help.h"

namespace proftrace {
namespace {

constexpr char kSiteFile[] = "/etc/proftrace/config";
constexpr char kUserFile[] = "/proftrace/config";  // below $XDG_CONFIG_HOME or ~/.config
constexpr size_t kMostBytes = size_t{64} << 10;
// Options that can have no default, because the user must give them deliberately.
constexpr std::array<std::string_view, 6> kTypedAlone = {"pid",   "all-processes", "as-root",
                                                         "force", "help",          "json"};

absl::Status Wrong(const std::string& place, const std::string& what) {
  return Fail(ExitCode::kUsage, place + ": " + what + "; --no-config reads no such file");
}

// Returns why another user may have written a file or its directory; empty where none can have. A
// group with the user's own number counts as the user.
std::string WhyNotTrusted(const struct stat& found) {
  if (found.st_uid != 0 && found.st_uid != geteuid()) {
    return "belongs to user " + std::to_string(found.st_uid);
  }
  const bool by_group = (found.st_mode & S_IWGRP) != 0 && found.st_gid != found.st_uid;
  return by_group || (found.st_mode & S_IWOTH) != 0 ? "can be written by others" : "";
}

// Reads a file after checking that it is trusted. Returns nullopt where there is no such file.
absl::StatusOr<std::optional<std::string>> ReadTrusted(const std::string& path) {
  const std::string folder = path.substr(0, path.rfind('/'));
  const UniqueFd directory(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // A folder that this user cannot open counts as one without the file.
  if (!directory.valid()) return std::optional<std::string>();
  const UniqueFd file(
      openat(directory.get(), path.c_str() + folder.size() + 1, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) {
    if (errno == ENOENT) return std::optional<std::string>();
    return Wrong(path, std::string("it cannot be read: ") + std::strerror(errno));
  }
  struct stat found {};
  if (fstat(file.get(), &found) != 0 || !S_ISREG(found.st_mode))
    return Wrong(path, "it is no file");
  std::string distrust = WhyNotTrusted(found);
  if (distrust.empty() && fstat(directory.get(), &found) == 0) {
    distrust = WhyNotTrusted(found);
    if (!distrust.empty()) distrust = "lies in a directory that " + distrust;
  }
  if (!distrust.empty()) return Wrong(path, "it " + distrust + ", and is not read");
  std::string text(kMostBytes + 1, '\0');
  const ssize_t bytes = read(file.get(), text.data(), text.size());
  if (bytes < 0) return Wrong(path, std::string("it cannot be read: ") + std::strerror(errno));
  if (static_cast<size_t>(bytes) > kMostBytes) return Wrong(path, "it is longer than 64 KiB");
  text.resize(static_cast<size_t>(bytes));
  return std::optional<std::string>(std::move(text));
}

// Returns the paths of the files, the site's first.
std::vector<std::string> ConfigFiles() {
  std::vector<std::string> files = {kSiteFile};
  if (geteuid() == 0) return files;
  const char* folder = std::getenv("XDG_CONFIG_HOME");
  const char* home = std::getenv("HOME");
  if (folder != nullptr && folder[0] == '/') {
    files.push_back(folder + std::string(kUserFile));
  } else if (home != nullptr && home[0] == '/') {
    files.push_back(home + std::string("/.config") + kUserFile);
  }
  return files;
}

bool IsGiven(const CLI::Option& option) {
  if (option.count() > 0) return true;
  const std::set<CLI::Option*>& others = option.get_excludes();
  return std::any_of(others.begin(), others.end(),
                     [](const CLI::Option* other) { return other->count() > 0; });
}

// Returns the word for the command line that sets the option; nullopt for a flag that is off.
absl::StatusOr<std::optional<std::string>> WordOf(const CLI::Option& option,
                                                  const OptionDefault& wanted) {
  const std::string name = "--" + wanted.option;
  if (option.get_items_expected_max() > 0) return std::optional(name + "=" + wanted.value);
  if (wanted.value == "true") return std::optional(name);
  if (wanted.value == "false") return std::optional<std::string>();
  return Wrong(wanted.place,
               "'" + wanted.value + "' is neither true nor false, as " + name + " needs it");
}

}  // namespace

absl::StatusOr<std::vector<OptionDefault>> ParseConfig(std::string_view text,
                                                       const std::string& path) {
  std::vector<OptionDefault> defaults;
  std::string command;
  size_t number = 0;
  for (const std::string_view whole : SplitText(text, "\n", /*skip_empty=*/false)) {
    const std::string place = path + ", line " + std::to_string(++number);
    const std::string_view line = StripBlanks(whole);
    if (line.empty() || line.front() == '#') continue;
    if (line.front() == '[' && line.back() == ']') {
      command = StripBlanks(line.substr(1, line.size() - 2));
      continue;
    }
    const size_t sign = line.find('=');
    if (sign == std::string_view::npos) return Wrong(place, "write OPTION = VALUE, or [COMMAND]");
    if (command.empty()) return Wrong(place, "a section has to come first: [record], say");
    const std::string option(StripBlanks(line.substr(0, sign)));
    if (std::find(kTypedAlone.begin(), kTypedAlone.end(), option) != kTypedAlone.end()) {
      return Wrong(place, "'" + option + "' has no default; it is to be typed");
    }
    defaults.push_back({command, option, std::string(StripBlanks(line.substr(sign + 1))), place});
  }
  return defaults;
}

absl::StatusOr<std::vector<OptionDefault>> ReadConfigFiles() {
  std::vector<OptionDefault> all;
  for (const std::string& path : ConfigFiles()) {
    const absl::StatusOr<std::optional<std::string>> text = ReadTrusted(path);
    if (!text.ok()) return text.status();
    if (!text->has_value()) continue;
    absl::StatusOr<std::vector<OptionDefault>> defaults = ParseConfig(**text, path);
    if (!defaults.ok()) return defaults.status();
    // A default of a later file replaces that of an earlier one.
    for (const OptionDefault& later : *defaults) {
      std::erase_if(all, [&later](const OptionDefault& earlier) {
        return earlier.command == later.command && earlier.option == later.option;
      });
    }
    all.insert(all.end(), defaults->begin(), defaults->end());
  }
  return all;
}

absl::StatusOr<std::vector<std::string>> WordsOfDefaults(
    const CLI::App& command, const std::vector<OptionDefault>& defaults) {
  std::vector<std::string> words;
  for (const OptionDefault& wanted : defaults) {
    if (wanted.command != CommandName(command)) continue;
    const std::string name = "--" + wanted.option;
    const CLI::Option* option = command.get_option_no_throw(name);
    if (option == nullptr) return Wrong(wanted.place, UnknownWord(command, name));
    if (IsGiven(*option)) continue;
    absl::StatusOr<std::optional<std::string>> word = WordOf(*option, wanted);
    if (!word.ok()) return word.status();
    if (word->has_value()) words.push_back(std::move(**word));
  }
  return words;
}

}  // namespace proftrace
