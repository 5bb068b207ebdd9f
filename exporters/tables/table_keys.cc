#include "exporters/tables/table_keys.h"

namespace proftrace {

TableKeys::TableKeys(const Timeline& timeline) {
  const RecordingInfo& info = timeline.info();
  all_.host = info.host.name;
  bool is_first = true;
  for (const Target& target : info.targets) {
    const uint32_t pid = Raw(target.pid);
    RowKeys keys;
    keys.host = info.host.name;
    keys.job = jobs_.insert_or_assign(pid, JobNameOf(target.job)).first->second;
    keys.attempt = AttemptOf(target.job);
    if (target.rank) keys.rank = *target.rank;
    of_process_.insert_or_assign(pid, keys);
    // Helper processes have no rank or no environment, so they do not contradict the others.
    if (!keys.rank && keys.job.empty()) continue;
    if (is_first) {
      all_ = keys;
      is_first = false;
      continue;
    }
    if (all_.job != keys.job) all_.job = {};
    if (all_.attempt != keys.attempt) all_.attempt.reset();
    if (all_.rank != keys.rank) all_.rank.reset();
  }
  if (is_first) all_.attempt = 0;
}

}  // namespace proftrace
