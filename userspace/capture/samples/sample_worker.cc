#include "userspace/capture/samples/sample_worker.h"

#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

#include "bpf/abi/records.h"
#include "symbols/process/cache_bytes.h"
#include "symbols/process/process_memory.h"
#include "symbols/process/target_entries.h"

namespace proftrace {
namespace {

// The first byte of the question for the next task. The result of the last task follows it.
constexpr char kNextTask = 'N';

enum class TaskKind : uint8_t { kEnd = 0, kNew = 1, kOld = 2, kReading = 3 };

template <typename T>
std::string_view BytesOfList(const std::vector<T>& list) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {reinterpret_cast<const char*>(list.data()), list.size() * sizeof(T)};
}

template <typename T>
std::vector<T> ListOf(std::string_view bytes) {
  std::vector<T> list(bytes.size() / sizeof(T));
  if (!list.empty()) std::memcpy(list.data(), bytes.data(), list.size() * sizeof(T));
  return list;
}

struct TaskEncoder {
  CacheWriter* out;

  void operator()(const NewSampledProcess& task) const {
    out->Number(static_cast<uint8_t>(TaskKind::kNew));
    out->Number(Raw(task.pid));
    out->Text(task.process.python ? BytesOfPlain(*task.process.python) : std::string_view());
    out->Number(task.process.python_version);
    out->Text(task.process.python_file);
  }
  void operator()(const OldSampledProcess& task) const {
    out->Number(static_cast<uint8_t>(TaskKind::kOld));
    out->Number(Raw(task.pid));
  }
  void operator()(const SampleReading& task) const {
    out->Number(static_cast<uint8_t>(TaskKind::kReading));
    out->Number(Raw(task.pid));
    out->Number(Raw(task.tid));
    out->Number(task.number);
    out->Number(task.flags);
    out->Text(BytesOfPlain(task.registers));
    out->Text(BytesOfList(task.frames));
    out->Text(BytesOfList(task.stack));
  }
};

SampleReading DecodeReading(Pid pid, CacheReader* in) {
  SampleReading reading;
  reading.pid = pid;
  reading.tid = Tid{in->Number<uint32_t>()};
  reading.number = in->Number<uint64_t>();
  reading.flags = in->Number<uint32_t>();
  TakePlain(in->Text(), &reading.registers);
  reading.frames = ListOf<abi::pt_sampled_frame>(in->Text());
  reading.stack = ListOf<uint8_t>(in->Text());
  return reading;
}

// Runs in the worker: names samples until there are no more tasks.
absl::StatusOr<std::string> NameSamples(WorkerChannel* channel) {
  AskForEntries(channel);
  SampleNames names;
  std::string done(1, kNextTask);
  while (true) {
    const WorkerAnswer answer = channel->Ask(done);
    CacheReader in(answer.bytes);
    const auto kind = static_cast<TaskKind>(in.Number<uint8_t>());
    const Pid pid{in.Number<uint32_t>()};
    done.assign(1, kNextTask);
    if (kind == TaskKind::kEnd || !in.ok()) return "";
    if (kind != TaskKind::kReading) ForgetMemory(pid);
    if (kind == TaskKind::kOld) names.RemoveProcess(pid);
    if (kind == TaskKind::kNew) {
      SampledProcess process;
      PythonLayout layout;
      if (TakePlain(in.Text(), &layout)) process.python = layout;
      process.python_version = in.Number<uint32_t>();
      process.python_file = in.Text();
      names.AddProcess(pid, std::move(process));
    }
    if (kind != TaskKind::kReading) continue;
    const SampleReading reading = DecodeReading(pid, &in);
    std::vector<std::byte> records;
    const NamedSample named = names.Name(reading, &records);
    CacheWriter out;
    out.Number(named.frame);
    out.Number(named.flags);
    out.Text(BytesOfList(records));
    done += out.Take();
  }
}

// Whether `records` holds only whole records of names, all of the process `pid`.
bool AreNames(std::span<const std::byte> records, Pid pid) {
  while (!records.empty()) {
    abi::pt_record head;
    if (records.size() < sizeof(head)) return false;
    std::memcpy(&head, records.data(), sizeof(head));
    const size_t bytes = size_t{head.words} * 8;
    const bool is_name = head.kind == abi::PT_SAMPLE_FUNCTION || head.kind == abi::PT_SAMPLE_FRAME;
    if (!is_name || head.pid != Raw(pid) || bytes < sizeof(head) || bytes > records.size()) {
      return false;
    }
    records = records.subspan(bytes);
  }
  return true;
}

}  // namespace

WorkerAnswer SampleWorker::GiveTask(const NextTask& next) {
  const std::optional<SampleTask> task = next();
  CacheWriter out;
  asked_ = Pid{};
  about_ = Pid{};
  if (!task) {
    out.Number(static_cast<uint8_t>(TaskKind::kEnd));
    return WorkerAnswer{out.Take(), UniqueFd()};
  }
  if (const auto* process = std::get_if<NewSampledProcess>(&*task)) {
    about_ = process->pid;
    targets_[process->pid] = std::make_unique<TargetAnswers>(process->pid, nullptr);
  } else if (const auto* gone = std::get_if<OldSampledProcess>(&*task)) {
    targets_.erase(gone->pid);
  } else {
    const auto& reading = std::get<SampleReading>(*task);
    asked_ = about_ = reading.pid;
    number_ = reading.number;
  }
  std::visit(TaskEncoder{&out}, *task);
  return WorkerAnswer{out.Take(), UniqueFd()};
}

WorkerAnswer SampleWorker::Answer(std::string_view question, const NextTask& next,
                                  const OnNamed& on_named) {
  if (question.empty() || question.front() != kNextTask) {
    const auto target = targets_.find(about_);
    return target == targets_.end() ? RefusalOfEntries() : target->second->Answer(question);
  }
  CacheReader in(question.substr(1));
  if (asked_ != Pid{} && !in.at_end()) {
    NamedReading named;
    named.number = number_;
    named.sample.frame = in.Number<uint32_t>();
    named.sample.flags = in.Number<uint8_t>();
    named.records = ListOf<std::byte>(in.Text());
    if (in.ok() && AreNames(named.records, asked_)) on_named(std::move(named));
  }
  return GiveTask(next);
}

absl::Status SampleWorker::Run(const NextTask& next, const OnNamed& on_named) {
  WorkerOrder order;
  order.title = "proftrace-stack";
  order.what = "finds the names of samples";
  order.is_lasting = true;
  return RunWorker(order, NameSamples,
                   [&](std::string_view question) { return Answer(question, next, on_named); })
      .status();
}

}  // namespace proftrace
