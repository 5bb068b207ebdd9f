#include "userspace/cli/confinements.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iterator>

#include "userspace/base/guarded_folder.h"

namespace proftrace {
namespace {

// The files that describe time zones.
constexpr const char* kTimeZones[] = {"/etc/localtime", "/usr/share/zoneinfo"};

std::string ParentOf(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

bool IsDirectoryAt(const std::string& path) {
  struct stat entry {};
  return stat(path.c_str(), &entry) == 0 && S_ISDIR(entry.st_mode);
}

Confinement OfReader(const std::vector<std::string>& captures) {
  Confinement confinement;
  Reach& reach = confinement.reach;
  reach.reads.assign(std::begin(kTimeZones), std::end(kTimeZones));
  reach.reads.insert(reach.reads.end(), captures.begin(), captures.end());
  // Standard output and error may be a terminal or a file.
  reach.write_descriptors = {STDOUT_FILENO, STDERR_FILENO};
  return confinement;
}

// Allows the directory for spans that do not fit in memory: the first writable one of those that
// OpenSpillFile() tries.
void AddScratch(const std::string& capture, Reach* reach) {
  std::vector<std::string> places = {IsDirectoryAt(capture) ? capture : ParentOf(capture)};
  if (const char* named = std::getenv("TMPDIR"); named != nullptr) places.emplace_back(named);
  places.emplace_back("/tmp");
  for (const std::string& place : places) {
    if (access(place.c_str(), W_OK | X_OK) != 0) continue;
    reach->writes.push_back(place);
    return;
  }
}

void LetMakeFiles(Confinement* confinement) {
  confinement->makes_files = true;
  confinement->gives_files = OwnerFromSudo().has_value();
}

}  // namespace

Confinement OfRecording(const ResultDirectory& directory) {
  Confinement confinement = OfExport(directory.fd());
  confinement.what = "writes the results";
  confinement.advice = "What was recorded is in " + directory.FindPlace().path + "/capture.ptrec";
  return confinement;
}

Confinement OfReport(const std::vector<std::string>& captures) {
  Confinement confinement = OfReader(captures);
  for (const std::string& capture : captures) AddScratch(capture, &confinement.reach);
  if (captures.empty()) AddScratch("/tmp", &confinement.reach);
  confinement.what = "reads the recording";
  confinement.advice = "The recording is as it was";
  return confinement;
}

Confinement OfExport(const std::vector<std::string>& captures, const std::string& output) {
  Confinement confinement = OfReport(captures);
  Reach& reach = confinement.reach;
  std::string place = output.empty() ? "." : output;
  if (struct stat entry{};
      stat(place.c_str(), &entry) == 0 && !S_ISDIR(entry.st_mode) && !S_ISREG(entry.st_mode)) {
    // The output is a device or a pipe: no file is made beside it, but its directory is opened.
    reach.writes.push_back(place);
    reach.lists.push_back(ParentOf(place));
    reach.writes.emplace_back("/tmp");
  } else {
    reach.writes.push_back(IsDirectoryAt(place) ? place : ParentOf(place));
  }
  LetMakeFiles(&confinement);
  return confinement;
}

Confinement OfExport(int directory) {
  Confinement confinement = OfReader({});
  confinement.reach.write_descriptors.push_back(directory);
  LetMakeFiles(&confinement);
  confinement.what = "writes the outputs";
  confinement.advice = "The capture is as it was";
  return confinement;
}

}  // namespace proftrace
