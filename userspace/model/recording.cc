#include "userspace/model/recording.h"

#include <utility>

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
  while (!text.empty()) {
    const size_t comma = text.find(',');
    for (const auto& [name, flag] : kNames) {
      if (text.substr(0, comma) == name) activities.*flag = true;
    }
    text = comma == std::string_view::npos ? "" : text.substr(comma + 1);
  }
  return activities;
}

}  // namespace proftrace
