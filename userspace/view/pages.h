// Makes the pages that `proftrace view` serves: the report, with buttons that hand its trace to
// other pages, and a small page for a trace that has no report.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "userspace/base/unique_fd.h"
#include "userspace/view/served_files.h"

namespace proftrace {

extern const std::string_view kViewScript;  // the text of page/view.js
extern const std::string_view kTracePage;   // the text of page/trace.html

// A stretch of an open file, and the name that it is served by.
struct ViewedFile {
  std::shared_ptr<const UniqueFd> fd;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::string name;
};

// The files and addresses that the buttons of a page lead to.
struct ViewFacts {
  std::string title;
  std::optional<ViewedFile> trace;
  std::optional<ViewedFile> speedscope;
  // Addresses of Perfetto's and speedscope's pages: absolute, or of a folder that is served as
  // well.
  std::string perfetto_ui;
  std::string speedscope_ui;
};

// Adds everything that is served of a result: the page (`report`, or a small page for the trace
// where there is no report), the trace and the stacks as `facts` names them, and the script. Fails
// with kInputDamaged where `report` is not a page of proftrace.
absl::Status AddPages(const std::optional<ViewedFile>& report, const ViewFacts& facts,
                      ServedFiles* files);

// Returns "https://ui.example" for "https://ui.example/path"; nullopt where `address` is not the
// address of a page that a browser opens over a network.
std::optional<std::string> OriginOf(std::string_view address);

}  // namespace proftrace
