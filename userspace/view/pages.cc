#include "userspace/view/pages.h"

#include <absl/strings/str_cat.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "userspace/base/dumped_json.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/shown_text.h"

namespace proftrace {
namespace {

constexpr char kHtml[] = "text/html; charset=utf-8";
constexpr char kScript[] = "text/javascript; charset=utf-8";
// The policy of the report's page stands in its first bytes, far before the data.
constexpr uint64_t kMostHeadOfPage = 16 * 1024;
constexpr std::string_view kPolicyElement = "<meta http-equiv=\"Content-Security-Policy\"";

// The policy of a served page: the page may run its inline scripts and view.js, and fetch from this
// server. No frame of another page may show it.
constexpr char kPagePolicy[] =
    "Content-Security-Policy: default-src 'none'; script-src 'self' 'unsafe-inline'; style-src "
    "'unsafe-inline'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'\r\n";

void ReplaceAll(std::string* text, std::string_view from, const std::string& to) {
  for (size_t at = 0; (at = text->find(from, at)) != std::string::npos; at += to.size()) {
    text->replace(at, from.size(), to);
  }
}

std::string Escaped(std::string text) {
  ReplaceAll(&text, "&", "&amp;");
  ReplaceAll(&text, "<", "&lt;");
  ReplaceAll(&text, "\"", "&quot;");
  ReplaceAll(&text, "@", "&#64;");  // so that no text looks like a placeholder (@TITLE@)
  return text;
}

nlohmann::json FileJson(const std::optional<ViewedFile>& file) {
  if (!file.has_value()) return nullptr;
  return {{"name", file->name}, {"bytes", file->bytes}};
}

// Returns the elements that load the script, and the data that the script reads.
std::string ViewElements(const ViewFacts& facts) {
  const nlohmann::json view = {{"title", ShownText(facts.title)},
                               {"trace", FileJson(facts.trace)},
                               {"speedscope", FileJson(facts.speedscope)},
                               {"perfetto", facts.perfetto_ui},
                               {"speedscope_ui", facts.speedscope_ui}};
  std::string json = AsciiJson(view);
  // Escapes these characters, so that no text can end the script element, or look like a
  // placeholder (@TITLE@).
  ReplaceAll(&json, "<", "\\u003c");
  ReplaceAll(&json, "@", "\\u0040");
  return absl::StrCat("<script id=\"view\" type=\"application/json\">", json,
                      "</script>\n<script src=\"view.js\" defer></script>\n");
}

absl::Status NoPage(const ViewedFile& report) {
  return Fail(ExitCode::kInputDamaged,
              report.name +
                  " is not a page of proftrace's: remove it, or make it anew with "
                  "'proftrace export RESULT --format report'");
}

// Returns the report with its own policy, which forbids all network access, replaced by
// ViewElements(). The rest of the page is served from the file.
absl::StatusOr<ServedFile> ReportPage(const ViewedFile& report, const ViewFacts& facts) {
  std::string head(std::min(report.bytes, kMostHeadOfPage), '\0');
  const ssize_t got =
      pread(report.fd->get(), head.data(), head.size(), static_cast<off_t>(report.offset));
  if (got != static_cast<ssize_t>(head.size())) return NoPage(report);
  const size_t start = head.find(kPolicyElement);
  if (start == std::string::npos) return NoPage(report);
  const size_t end = head.find('>', start);
  if (end == std::string::npos) return NoPage(report);
  ServedFile page(kHtml, kPagePolicy);
  page.AddText(head.substr(0, start) + ViewElements(facts));
  page.AddStretch(report.fd, report.offset + end + 1, report.bytes - end - 1);
  return page;
}

ServedFile TracePage(const ViewFacts& facts) {
  std::string text(kTracePage);
  ReplaceAll(&text, "@VIEW@", ViewElements(facts));
  ReplaceAll(&text, "@TRACE@", facts.trace.has_value() ? facts.trace->name : "");
  ReplaceAll(&text, "@TITLE@", Escaped(ShownText(facts.title)));
  ServedFile page(kHtml, kPagePolicy);
  page.AddText(std::move(text));
  return page;
}

std::string TypeOf(std::string_view name) {
  if (name.ends_with(".gz")) return "application/gzip";
  return name.ends_with(".json") ? "application/json" : "application/octet-stream";
}

void AddStretchOf(const ViewedFile& file, const std::string& headers, ServedFiles* files) {
  ServedFile served(TypeOf(file.name), headers);
  served.AddStretch(file.fd, file.offset, file.bytes);
  files->Add(file.name, std::move(served));
}

}  // namespace

std::optional<std::string> OriginOf(std::string_view address) {
  for (const std::string_view scheme : {"https://", "http://"}) {
    if (!address.starts_with(scheme)) continue;
    const std::string_view rest = address.substr(scheme.size());
    const std::string_view host = rest.substr(0, rest.find_first_of("/?#"));
    // The host becomes part of a header, so that only these characters are allowed.
    const bool is_host = !host.empty() && std::all_of(host.begin(), host.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '.' || c == '-' || c == ':' || c == '[' || c == ']';
    });
    if (!is_host) return std::nullopt;
    return std::string(scheme) + std::string(host);
  }
  return std::nullopt;
}

absl::Status AddPages(const std::optional<ViewedFile>& report, const ViewFacts& facts,
                      ServedFiles* files) {
  if (report.has_value()) {
    absl::StatusOr<ServedFile> page = ReportPage(*report, facts);
    if (!page.ok()) return page.status();
    files->Add("", *page);
    files->Add("report.html", *std::move(page));
  } else {
    files->Add("", TracePage(facts));
  }
  ServedFile script(kScript);
  script.AddText(std::string(kViewScript));
  files->Add("view.js", std::move(script));
  if (facts.trace.has_value()) AddStretchOf(*facts.trace, "", files);
  if (facts.speedscope.has_value()) {
    // speedscope's page fetches the file from its own origin, which must be allowed to read it.
    const std::optional<std::string> origin = OriginOf(facts.speedscope_ui);
    AddStretchOf(*facts.speedscope,
                 origin.has_value()
                     ? "Access-Control-Allow-Origin: " + *origin + "\r\nVary: Origin\r\n"
                     : "",
                 files);
  }
  return absl::OkStatus();
}

}  // namespace proftrace
