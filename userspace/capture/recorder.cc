#include "userspace/capture/recorder.h"

#include <utility>

#include "userspace/capture/record_session.h"

namespace proftrace {

RecordResult Record(const RecordOptions& options, std::unique_ptr<CaptureWriter> writer,
                    const RecordCallbacks& callbacks, const std::atomic<bool>& stop) {
  return RecordSession(options, std::move(writer), callbacks, stop).Run();
}

}  // namespace proftrace
