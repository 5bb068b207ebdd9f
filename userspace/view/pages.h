// The pages that `proftrace view` serves: the report, with buttons that hand its trace to other
// pages, and a small one for a trace that has no report.
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

extern const std::string_view kViewScript;  // of page/view.js
extern const std::string_view kTracePage;   // of page/trace.html

// A stretch of an open file, and what it is called where it is served.
struct ViewedFile {
  std::shared_ptr<const UniqueFd> fd;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::string name;
};

// What the buttons of a page lead to.
struct ViewFacts {
  std::string title;
  std::optional<ViewedFile> trace;
  std::optional<ViewedFile> speedscope;
  // Addresses of the other pages: absolute, or of a folder that is served too.
  std::string perfetto_ui;
  std::string speedscope_ui;
};

// Adds all that a result gives: the page (of `report`, else a small one of the trace), the trace
// and the stacks as `facts` names them, and the script. Fails with kInputDamaged where `report` is
// no page of proftrace's.
absl::Status AddPages(const std::optional<ViewedFile>& report, const ViewFacts& facts,
                      ServedFiles* files);

// Returns "https://ui.example" of "https://ui.example/path"; nullopt: this is no address of a page
// that a browser opens over a network.
std::optional<std::string> OriginOf(std::string_view address);

}  // namespace proftrace
