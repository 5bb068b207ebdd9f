// The report's page, before and after its data. Generated from page/ by embed_page.cmake.
#pragma once

#include <string_view>

namespace proftrace {

extern const std::string_view kReportPageHead;
extern const std::string_view kReportPageMiddle;  // between the facts and the packed columns
extern const std::string_view kReportPageTail;

}  // namespace proftrace
