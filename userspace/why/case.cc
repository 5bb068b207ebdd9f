#include "userspace/why/case.h"

#include <absl/strings/str_format.h>

#include <string_view>

#include "userspace/aggregate/python_text.h"
#include "userspace/base/shown_text.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

// Returns the port at the end of "10.0.0.1:80".
uint32_t PortOf(std::string_view address) {
  return ParseNumber<uint32_t>(address.substr(address.rfind(':') + 1)).value_or(0);
}

// `name`: "tcp:127.0.0.1:5000->127.0.0.1:80", for example.
std::string SocketGroupText(const std::string& name) {
  const size_t arrow = name.find("->");
  const size_t begin = name.find(':') + 1;
  if (arrow == std::string::npos || begin > arrow) return "sockets";
  const std::string local = name.substr(begin, arrow - begin);
  const std::string peer = name.substr(arrow + 2);
  // The side that asks has a port that the kernel chose, which is a high one.
  return PortOf(peer) <= PortOf(local) ? "sockets to " + peer : "sockets of " + local;
}

}  // namespace

std::string DriverText(const Case& job) {
  const Thread& thread = job.timeline.thread(job.parts.thread);
  if (Raw(thread.tid) == Raw(thread.pid)) return "the main thread";
  return ThreadPlaceText(job.timeline, job.parts.thread, job.parts.pid);
}

std::string DurationText(int64_t ns) {
  const auto value = static_cast<double>(ns);
  if (value >= 1e9) return absl::StrFormat("%.2f s", value * 1e-9);
  if (value >= 1e7) return absl::StrFormat("%.1f ms", value * 1e-6);
  if (value >= 1e6) return absl::StrFormat("%.2f ms", value * 1e-6);
  if (value >= 1e4) return absl::StrFormat("%.0f us", value * 1e-3);
  if (value >= 1e3) return absl::StrFormat("%.1f us", value * 1e-3);
  return absl::StrFormat("%.0f ns", value);
}

std::string PercentText(int64_t ns, int64_t of_ns) {
  const double percent =
      of_ns <= 0 ? 0 : 100 * static_cast<double>(ns) / static_cast<double>(of_ns);
  return absl::StrFormat("%.*f %%", percent < 9.95 ? 1 : 0, percent);
}

std::string BytesText(int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (value >= 1e9) return absl::StrFormat("%.1f GB", value * 1e-9);
  if (value >= 1e6) return absl::StrFormat("%.1f MB", value * 1e-6);
  if (value >= 1e3) return absl::StrFormat("%.1f kB", value * 1e-3);
  return CountText(static_cast<uint64_t>(bytes), "byte", "bytes");
}

std::string CountText(uint64_t count, const std::string& one, const std::string& many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

std::string ThreadPlaceText(const Timeline& timeline, ThreadIndex thread, Pid own) {
  const Thread& facts = timeline.thread(thread);
  if (facts.pid == own && Raw(facts.tid) == Raw(own)) return "the main thread";
  std::string number = "TID " + std::to_string(Raw(facts.tid));
  if (facts.pid != own && Raw(facts.tid) == Raw(facts.pid)) {
    const std::string process = "PID " + std::to_string(Raw(facts.pid));
    if (facts.name.empty()) return "the main thread of " + process;
    return "the main thread of process " + ShownText(facts.name) + " (" + process + ")";
  }
  if (facts.pid != own) number += " of PID " + std::to_string(Raw(facts.pid));
  if (facts.name.empty()) return "the thread with " + number;
  return "thread " + ShownText(facts.name) + " (" + number + ")";
}

std::string FileText(const Timeline& timeline, SystemFileId id) {
  const SystemFile* file = timeline.system_tables().File(id);
  return file == nullptr || file->name.empty() ? "" : ShownText(file->name);
}

std::string FileGroupText(const Timeline& timeline, SystemFileId id) {
  const std::string name = FileText(timeline, id);
  if (name.empty()) return "";
  switch (timeline.system_tables().File(id)->kind) {
    case SystemFileKind::kSocket:
      return SocketGroupText(name);
    case SystemFileKind::kPipe:
      return "pipes";
    default: {
      const size_t slash = name.rfind('/');
      return slash == std::string::npos || slash == 0 ? "" : "files in " + name.substr(0, slash);
    }
  }
}

std::string WaitPlaceText(const Timeline& timeline, const WaitPlace& place) {
  std::string text;
  if (place.stack != kNoStack) text = ShownText(PythonLineText(timeline, place.stack));
  if (place.path != kRootPath) {
    const Label& label = timeline.label(timeline.path(place.path).label);
    text += (text.empty() ? "" : ", in ") + ShownText(label.name);
  }
  return text;
}

}  // namespace proftrace
