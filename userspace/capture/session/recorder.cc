#include "userspace/capture/session/recorder.h"

#include <memory>
#include <system_error>
#include <utility>

#include "symbols/plan/analysed_files.h"
#include "userspace/base/exit_status.h"
#include "userspace/capture/session/record_session.h"

namespace proftrace {

RecordResult Record(const RecordOptions& options, std::unique_ptr<CaptureWriter> writer,
                    const RecordCallbacks& callbacks, const std::atomic<bool>& stop) {
  RecordOptions own = options;
  own.plan.analysed = std::make_shared<AnalysedFiles>();
  try {
    return RecordSession(own, std::move(writer), callbacks, stop).Run();
  } catch (const std::system_error& error) {
    // A thread could not be started. All threads are started before anything is recorded.
    RecordResult result;
    result.status = NoMoreProcesses(error.code().value());
    return result;
  }
}

}  // namespace proftrace
