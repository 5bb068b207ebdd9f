// Finds the places of nn.Modules in the models that call them (module_finder.h), and writes these
// places into the capture. A record reports each module when it is first seen, the outermost module
// first. A worker without rights reads the job's memory while the job runs; the ring does not wait
// for it.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "symbols/python/python_layout.h"
#include "userspace/capture/records/capture_sink.h"
#include "userspace/capture/targets/target_reader.h"
#include "userspace/model/ids.h"

namespace proftrace {

class ModuleCollector {
 public:
  // `sink` must outlive the collector.
  explicit ModuleCollector(CaptureSink* sink);
  ~ModuleCollector();
  ModuleCollector(const ModuleCollector&) = delete;
  ModuleCollector& operator=(const ModuleCollector&) = delete;

  // Looks for modules of the process from here on. To be called again when the process runs another
  // program.
  void SetLayout(Pid pid, const PythonLayout& layout);
  // Takes any record of the ring; records that do not report modules are ignored.
  void Observe(std::span<const std::byte> record);
  // Waits until all observed modules are written, or for some seconds. Observe() must not be called
  // afterwards.
  void Finish();
  // Returns how many modules were never looked for in their model, because too many came at once,
  // or because no worker was left.
  uint64_t not_read() const;
  // Returns why modules were not read (TargetReader::failure()).
  std::string failure() const { return reader_.failure(); }

 private:
  struct Process {
    PythonLayout layout;
    uint32_t program = 0;  // a number for each program that a process has had
    size_t waiting = 0;    // modules that wait for an answer
  };

  void OnAnswer(Pid pid, std::string_view answer);

  CaptureSink* sink_;
  mutable std::mutex mutex_;
  absl::flat_hash_map<uint32_t, Process> processes_;  // by pid
  size_t waiting_ = 0;                                // modules of all processes
  uint32_t last_program_ = 0;
  uint64_t not_read_ = 0;
  TargetReader reader_;
};

}  // namespace proftrace
