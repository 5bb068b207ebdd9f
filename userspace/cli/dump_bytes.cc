#include "userspace/cli/dump_bytes.h"

#include <cstdint>
#include <utility>

#include "symbols/process/cache_bytes.h"

namespace proftrace {
namespace {

// Writer and Reader have the same functions, so that one list of fields serves both directions.
class Writer {
 public:
  void Take(const std::string& text) { out_.Text(text); }
  void Take(const bool& flag) { out_.Number(static_cast<uint8_t>(flag ? 1 : 0)); }
  void Take(const uint32_t& number) { out_.Number(number); }
  void Take(const uint64_t& number) { out_.Number(number); }
  void Take(const int32_t& number) { out_.Number(static_cast<uint32_t>(number)); }
  void Take(const Pid& pid) { out_.Number(Raw(pid)); }
  void Take(const ThreadState& state) { out_.Number(static_cast<uint8_t>(state)); }
  void Take(const std::optional<int32_t>& number) {
    Take(number.has_value());
    Take(number.value_or(0));
  }
  void Take(const std::optional<int64_t>& number) {
    Take(number.has_value());
    out_.Number(static_cast<uint64_t>(number.value_or(0)));
  }
  template <typename T, typename Visit>
  void TakeList(const std::vector<T>& list, Visit visit) {
    out_.Number(static_cast<uint32_t>(list.size()));
    for (const T& item : list) visit(*this, item);
  }
  std::string Finish() { return out_.Take(); }

 private:
  CacheWriter out_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : in_(bytes) {}
  void Take(std::string& text) { text = in_.Text(); }
  void Take(bool& flag) { flag = in_.Number<uint8_t>() != 0; }
  void Take(uint32_t& number) { number = in_.Number<uint32_t>(); }
  void Take(uint64_t& number) { number = in_.Number<uint64_t>(); }
  void Take(int32_t& number) { number = static_cast<int32_t>(in_.Number<uint32_t>()); }
  void Take(Pid& pid) { pid = Pid{in_.Number<uint32_t>()}; }
  void Take(ThreadState& state) {
    const auto number = in_.Number<uint8_t>();
    is_valid_ &= number <= static_cast<uint8_t>(ThreadState::kInPageFault);
    state = static_cast<ThreadState>(number);
  }
  void Take(std::optional<int32_t>& number) {
    bool is_there = false;
    int32_t value = 0;
    Take(is_there);
    Take(value);
    if (is_there) number = value;
  }
  void Take(std::optional<int64_t>& number) {
    bool is_there = false;
    uint64_t value = 0;
    Take(is_there);
    Take(value);
    if (is_there) number = static_cast<int64_t>(value);
  }
  template <typename T, typename Visit>
  void TakeList(std::vector<T>& list, Visit visit) {
    const uint32_t count = in_.Number<uint32_t>();
    for (uint32_t i = 0; i < count && in_.ok(); ++i) visit(*this, list.emplace_back());
  }
  bool ok() const { return is_valid_ && in_.ok() && in_.at_end(); }

 private:
  CacheReader in_;
  bool is_valid_ = true;
};

template <typename Bytes, typename Frame>
void VisitFrame(Bytes& bytes, Frame& frame) {
  bytes.Take(frame.file);
  bytes.Take(frame.name);
  bytes.Take(frame.qualified_name);
  bytes.Take(frame.first_line);
  bytes.Take(frame.line);
}

template <typename Bytes, typename Stack>
void VisitStack(Bytes& bytes, Stack& stack) {
  bytes.Take(stack.interpreter);
  bytes.Take(stack.thread_name);
  bytes.Take(stack.has_gil);
  bytes.Take(stack.waits_for_gil);
  bytes.Take(stack.is_cut);
  bytes.Take(stack.failed);
  bytes.TakeList(stack.frames, [](auto& each, auto& frame) { VisitFrame(each, frame); });
}

template <typename Bytes, typename Thread>
void VisitThread(Bytes& bytes, Thread& thread) {
  bytes.Take(thread.tid);
  bytes.Take(thread.comm);
  bytes.Take(thread.state);
  bytes.Take(thread.system_call);
  bytes.Take(thread.file);
  bytes.Take(thread.kernel_function);
  bytes.TakeList(thread.stacks, [](auto& each, auto& stack) { VisitStack(each, stack); });
}

template <typename Bytes, typename Dump>
void VisitDump(Bytes& bytes, Dump& dump) {
  bytes.Take(dump.pid);
  bytes.Take(dump.comm);
  bytes.Take(dump.python_version);
  bytes.Take(dump.interpreters);
  bytes.Take(dump.stopped_ns);
  bytes.Take(dump.not_stopped);
  bytes.Take(dump.was_stopped);
  bytes.Take(dump.standstill);
  bytes.Take(dump.is_whole);
  bytes.TakeList(dump.threads, [](auto& each, auto& thread) { VisitThread(each, thread); });
}

}  // namespace

std::string EncodeDump(const ProcessDump& dump) {
  Writer writer;
  VisitDump(writer, dump);
  return writer.Finish();
}

std::optional<ProcessDump> DecodeDump(std::string_view bytes) {
  Reader reader(bytes);
  ProcessDump dump;
  VisitDump(reader, dump);
  return reader.ok() ? std::optional(std::move(dump)) : std::nullopt;
}

}  // namespace proftrace
