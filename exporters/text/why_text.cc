#include "exporters/text/why_text.h"

#include <absl/strings/str_format.h>

#include <string_view>

#include "exporters/args/recording_json.h"
#include "exporters/sinks/escape.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

constexpr size_t kWidth = 100;
// The most bytes of a word; the rest of a longer name is left out.
constexpr size_t kLongestWord = 200;

// Adds a text, broken at blanks; lines after the first begin with `indent` blanks.
void AddWrapped(std::string_view text, size_t indent, std::string* out) {
  size_t column = out->size() - (out->rfind('\n') == std::string::npos ? 0 : out->rfind('\n') + 1);
  bool is_first = true;
  while (!text.empty()) {
    const size_t blank = text.find(' ');
    const std::string_view whole = text.substr(0, blank);
    const std::string word =
        whole.size() <= kLongestWord
            ? std::string(whole)
            : std::string(WithoutCutCharacter(whole.substr(0, kLongestWord))) + "…";
    if (!is_first && column + 1 + word.size() > kWidth) {
      *out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!is_first) {
      *out += ' ';
      ++column;
    }
    *out += word;
    column += word.size();
    is_first = false;
    text = blank == std::string_view::npos ? std::string_view() : text.substr(blank + 1);
  }
}

// Returns "12.8 ms", "0.957 ms" or, below a tenth of that, "14 us".
std::string TimeText(double ms) {
  if (ms < 0.1) return absl::StrFormat("%.*f us", ms < 0.01 ? 1 : 0, 1000 * ms);
  return absl::StrFormat("%.*f ms", ms < 1 ? 3 : ms < 10 ? 2 : ms < 100 ? 1 : 0, ms);
}

std::string HeadText(const Verdict& verdict, const Finding& finding) {
  const bool is_besides = finding.is_part_of_others() && verdict.findings.size() > 1;
  return absl::StrFormat("%s%s (%.0f %%%s%s): ", TimeText(verdict.MsAStep(finding)),
                         verdict.are_steps ? " a step" : "", 100 * verdict.ShareOf(finding),
                         finding.certainty == Certainty::kLikely ? ", likely" : "",
                         is_besides ? ", part of the others" : "");
}

}  // namespace

std::string FormatVerdict(const Verdict& verdict) {
  std::string text;
  AddWrapped(verdict.about, 0, &text);
  text += "\n";
  for (size_t i = 0; i < verdict.findings.size(); ++i) {
    const Finding& finding = verdict.findings[i];
    constexpr size_t kIndent = 5;
    text += absl::StrFormat("  %d. ", i + 1);
    AddWrapped(HeadText(verdict, finding) + finding.what + ".", kIndent, &text);
    text += "\n";
    for (const std::string& sentence : finding.evidence) {
      text += std::string(kIndent, ' ');
      AddWrapped(sentence, kIndent, &text);
      text += "\n";
    }
    if (finding.next.empty()) continue;
    text += std::string(kIndent, ' ');
    AddWrapped("To know more, record with " + finding.next + ".", kIndent, &text);
    text += "\n";
  }
  for (const std::string& remark : verdict.remarks) {
    text += "  ";
    AddWrapped(remark, 2, &text);
    text += "\n";
  }
  return text;
}

OrderedJson VerdictDocument(const Verdict& verdict) {
  OrderedJson findings = OrderedJson::array();
  for (const Finding& finding : verdict.findings) {
    OrderedJson evidence = OrderedJson::array();
    for (const std::string& sentence : finding.evidence) evidence.push_back(ToValidUtf8(sentence));
    findings.push_back({{"kind", FindingKindName(finding.kind)},
                        {"ms_a_step", verdict.MsAStep(finding)},
                        {"share", verdict.ShareOf(finding)},
                        {"certainty", CertaintyName(finding.certainty)},
                        {"what", ToValidUtf8(finding.what)},
                        {"evidence", std::move(evidence)},
                        {"record_with", TextOrNull(finding.next)}});
  }
  OrderedJson remarks = OrderedJson::array();
  for (const std::string& remark : verdict.remarks) remarks.push_back(ToValidUtf8(remark));
  return {{"about", ToValidUtf8(verdict.about)},
          {"steps", verdict.steps},
          {"median_step_us", static_cast<double>(verdict.median_step_ns) * 1e-3},
          {"findings", std::move(findings)},
          {"remarks", std::move(remarks)}};
}

absl::Status ExportVerdictJson(const Verdict& verdict, ByteSink& sink) {
  return WriteJson(VerdictDocument(verdict), sink);
}

}  // namespace proftrace
