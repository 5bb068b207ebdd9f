// A process that looks like a CPython and holds anything: its frames, code objects, tables of
// lines, dicts and modules. The first byte chooses the version.
#include <cstddef>
#include <cstdint>
#include <span>

#include "symbols/python/python_modules.h"
#include "symbols/python/python_objects.h"
#include "symbols/python/python_runtime.h"
#include "symbols/python/python_stacks.h"
#include "userspace/model/python_lines.h"

namespace proftrace {
namespace {

constexpr size_t kLongestRead = 65536;

// Memory that repeats the input over the whole address space.
class RepeatedMemory final : public TargetMemory {
 public:
  explicit RepeatedMemory(std::span<const uint8_t> data) : data_(data) {}
  bool Read(uint64_t address, void* buffer, size_t bytes) const override {
    if (bytes > kLongestRead) return false;
    for (size_t i = 0; i < bytes; ++i) {
      static_cast<uint8_t*>(buffer)[i] = data_[(address + i) % data_.size()];
    }
    return true;
  }

 private:
  std::span<const uint8_t> data_;
};

void Fuzz(uint8_t choice, std::span<const uint8_t> data) {
  const RepeatedMemory memory(data);
  const uint32_t version = kPython39 + choice % 6;
  const PythonPlace place{.runtime = 0, .version = version, .file = "/python"};
  auto layout = KnownPythonLayout(version);
  if (!layout) {
    const auto own = ReadPythonLayout(memory, 0);
    if (!own.ok() || !*own) return;
    layout = *own;
  }
  for (const PythonThread& thread :
       ReadPythonThreads(memory, *layout, {.threads = 8, .frames = 8}).threads) {
    for (const PythonStackFrame& frame : thread.frames) {
      const auto code = ReadPythonCode(memory, *layout, frame.code);
      if (code) PythonLine(version, code->first_line, code->lines, frame.instruction);
    }
  }
  const PythonObjects objects(memory, *layout);
  for (uint64_t object = 0; object < 64; object += 8) {
    objects.ClassNames(object);
    objects.Items(object);
    objects.DictValue(object, "key");
    objects.Attribute(object, "name");
  }
  ReadPythonModules(memory, *layout, 0, {.modules = 50, .depth = 10, .bytes = 1 << 20});
  if (choice >= 128) (void)ConfirmPython(memory, place);
  for (uint32_t unit = 0; unit < 300; ++unit) PythonLine(version, choice, data, unit);
}

}  // namespace
}  // namespace proftrace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 9) proftrace::Fuzz(data[0], {data + 1, size - 1});
  return 0;
}
