#include "userspace/capture/recorder.h"

#include <memory>
#include <utility>

#include "symbols/analysed_files.h"
#include "userspace/capture/record_session.h"

namespace proftrace {

RecordResult Record(const RecordOptions& options, std::unique_ptr<CaptureWriter> writer,
                    const RecordCallbacks& callbacks, const std::atomic<bool>& stop) {
  RecordOptions own = options;
  own.plan.analysed = std::make_shared<AnalysedFiles>();
  return RecordSession(own, std::move(writer), callbacks, stop).Run();
}

}  // namespace proftrace
