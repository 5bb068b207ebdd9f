// Has it found out where nn.Modules hang in the models that call them (module_finder.h), and writes
// that into the capture: the kernel's side tells of each module when it is first seen, the
// outermost first. A worker without rights reads the job's memory while the job runs; the ring does
// not wait for it.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "symbols/python/python_layout.h"
#include "userspace/capture/capture_sink.h"
#include "userspace/capture/target_reader.h"
#include "userspace/model/ids.h"

namespace proftrace {

class ModuleCollector {
 public:
  // `sink` must outlive the collector.
  explicit ModuleCollector(CaptureSink* sink);
  ~ModuleCollector();
  ModuleCollector(const ModuleCollector&) = delete;
  ModuleCollector& operator=(const ModuleCollector&) = delete;

  // Modules of the process are looked for from here on. It may have had another program before.
  void SetLayout(Pid pid, const PythonLayout& layout);
  // Takes a record of the ring; records that are not of modules are of no interest.
  void Observe(std::span<const std::byte> record);
  // Waits until what was observed is written, or for some seconds. Nothing may be observed
  // afterwards.
  void Finish();
  // Returns how many modules were never looked for in their model, because too many came at once,
  // or because nobody looked any more.
  uint64_t not_read() const;
  // As TargetReader::failure().
  std::string failure() const { return reader_.failure(); }

 private:
  struct Process {
    PythonLayout layout;
    uint32_t program = 0;  // a number for each program that a process has had
    size_t waiting = 0;    // modules
  };

  void OnAnswer(Pid pid, std::string_view answer);

  CaptureSink* sink_;
  mutable std::mutex mutex_;
  absl::flat_hash_map<uint32_t, Process> processes_;  // by pid
  size_t waiting_ = 0;                                // of all of them
  uint32_t last_program_ = 0;
  uint64_t not_read_ = 0;
  TargetReader reader_;
};

}  // namespace proftrace
