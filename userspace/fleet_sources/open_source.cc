#include "userspace/fleet_sources/open_source.h"

#include <filesystem>
#include <span>
#include <utility>

#include "userspace/base/exit_status.h"
#include "userspace/base/tar.h"
#include "userspace/base/text.h"
#include "userspace/collectives/json_text.h"
#include "userspace/fleet_sources/byte_source.h"
#include "userspace/fleet_sources/capture_source.h"
#include "userspace/fleet_sources/json_source.h"
#include "userspace/fleet_sources/nsight_source.h"
#include "userspace/wire/capture_format.h"

namespace proftrace {
namespace {

// The number of bytes at a file's beginning by which its kind is found.
constexpr size_t kBeginningBytes = size_t{64} << 10;
constexpr std::string_view kSqliteMark = "SQLite format 3";

using Sources = std::vector<std::unique_ptr<SourceInput>>;

absl::StatusOr<std::string> BeginningOf(const std::string& path) {
  absl::StatusOr<std::unique_ptr<ByteSource>> source = OpenByteSource(path);
  if (!source.ok()) return source.status();
  std::string text(kBeginningBytes, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const absl::StatusOr<size_t> got = (*source)->Read(text.data() + size, text.size() - size);
    if (!got.ok()) return got.status();
    if (*got == 0) break;
    size += *got;
  }
  text.resize(size);
  return text;
}

// Returns whether a text that begins with "{" has one event after the other instead of a document
// with events: its first object is an event then.
bool BeginsWithEvent(std::string_view text, size_t at) {
  bool has_phase = false;
  bool has_events = false;
  JsonFlaws flaws;
  size_t wrong_at = 0;
  (void)ForEachJsonMember(text, at, &flaws, &wrong_at,
                          [&](std::string_view key, std::string_view /*value*/) {
                            has_phase = has_phase || key == "ph";
                            has_events = has_events || key == "traceEvents";
                          });
  return has_phase && !has_events;
}

bool IsOfDftracer(const std::string& path, std::string_view text) {
  return path.ends_with(".pfw") || path.ends_with(".pfw.gz") || Contains(text, "\"dftracer\"") ||
         Contains(text, "\"hhash\"") || Contains(text, "\"dlio_profiler\"");
}

absl::StatusOr<Sources> One(absl::StatusOr<std::unique_ptr<SourceInput>> source) {
  if (!source.ok()) return source.status();
  Sources sources;
  sources.push_back(*std::move(source));
  return sources;
}

bool BeginsAsCapture(const std::string& path, const std::string& beginning) {
  return beginning.starts_with(std::string_view(kCaptureMagic, sizeof kCaptureMagic)) ||
         IsTar(std::as_bytes(std::span(beginning))) ||
         // The first bytes of this capture are lost; its reader will say what is wrong.
         (!beginning.empty() && path.ends_with(".ptrec"));
}

}  // namespace

absl::StatusOr<bool> IsCaptureInput(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return true;
  const absl::StatusOr<std::string> beginning = BeginningOf(path);
  if (!beginning.ok()) return beginning.status();
  return BeginsAsCapture(path, *beginning);
}

absl::StatusOr<Sources> OpenSources(const std::string& path, const SourceOptions& options) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return OpenCaptureSources(path, options.salvage, options.scratch_directory);
  }
  const absl::StatusOr<std::string> beginning = BeginningOf(path);
  if (!beginning.ok()) return beginning.status();
  if (BeginsAsCapture(path, *beginning)) {
    return OpenCaptureSources(path, options.salvage, options.scratch_directory);
  }
  if (beginning->starts_with(kSqliteMark)) return OpenNsightSources(path);
  std::string_view text = *beginning;
  ConsumeText(&text, "\xef\xbb\xbf");  // a byte order mark
  const size_t at = SkipJsonBlanks(text, 0);
  if (at < text.size() && (text[at] == '{' || text[at] == '[')) {
    const bool has_events_alone = text[at] == '[' || BeginsWithEvent(text, at);
    const bool is_dftracer = has_events_alone && IsOfDftracer(path, text);
    return One(
        OpenJsonSource(path, has_events_alone, is_dftracer, options.salvage, options.observer));
  }
  if (beginning->empty()) {
    return Fail(ExitCode::kInputDamaged, path + " is empty; its recording has not been finished");
  }
  return Fail(ExitCode::kUsage,
              path +
                  " is neither a recording of proftrace, nor a trace in JSON (torch.profiler, "
                  "DFTracer), nor an export of Nsight Systems (nsys export --type sqlite)");
}

absl::StatusOr<std::unique_ptr<SourceInput>> OpenSource(const std::string& path,
                                                        const SourceOptions& options) {
  absl::StatusOr<Sources> sources = OpenSources(path, options);
  if (!sources.ok()) return sources.status();
  if (sources->size() == 1) return std::move(sources->front());
  return Fail(ExitCode::kUsage, path + " holds " + std::to_string(sources->size()) +
                                    " processes or ranks; one is wanted");
}

}  // namespace proftrace
