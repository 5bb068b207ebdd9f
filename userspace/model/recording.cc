#include "userspace/model/recording.h"

#include <utility>

#include "userspace/base/text.h"

namespace proftrace {
namespace {

constexpr std::pair<std::string_view, bool SystemActivities::*> kNames[] = {
    {"cpu", &SystemActivities::operators}, {"syscalls", &SystemActivities::calls},
    {"io", &SystemActivities::io},         {"sched", &SystemActivities::sched},
    {"faults", &SystemActivities::faults},
};

}  // namespace

std::string SystemActivities::ToText() const {
  std::string text;
  for (const auto& [name, flag] : kNames) {
    if (!(this->*flag)) continue;
    text.append(text.empty() ? "" : ",").append(name);
  }
  return text;
}

SystemActivities SystemActivities::FromText(std::string_view text) {
  SystemActivities activities;
  activities.operators = text.empty();
  for (const std::string_view part : SplitText(text, ",", /*skip_empty=*/true)) {
    for (const auto& [name, flag] : kNames) {
      if (part == name) activities.*flag = true;
    }
  }
  return activities;
}

}  // namespace proftrace
