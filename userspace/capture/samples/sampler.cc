#include "userspace/capture/samples/sampler.h"

#include <time.h>

#include <algorithm>
#include <cstring>

#include "bpf/abi/records.h"
#include "symbols/python/python_stacks.h"
#include "symbols/python/sampled_frames.h"
#include "userspace/base/clock.h"

namespace proftrace {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
// How often the looks at resting threads are written. A recorder that is killed loses no more than
// these.
constexpr int64_t kWriteNs = kSecondNs;
// The time between two looks at the ring, where only wakers are sampled.
constexpr int64_t kDrainNs = 5'000'000;
constexpr int64_t kBetweenSearchesNs = 50'000'000;
// How long the end waits for the names of the last readings.
constexpr int64_t kLongestFinishNs = 10 * kSecondNs;
constexpr size_t kStackPageBytes = 4096;
// States of tasks (include/linux/sched.h).
constexpr uint32_t kTaskRunning = 0;
constexpr uint32_t kTaskUninterruptible = 2;
constexpr uint32_t kTaskStoppedOrTraced = 4 | 8;

uint8_t StateOf(const abi::pt_thread_state& thread) {
  if (thread.state == kTaskRunning) return abi::PT_SAMPLE_RUNNABLE;
  if ((thread.state & kTaskStoppedOrTraced) != 0) return abi::PT_SAMPLE_STOPPED;
  return (thread.state & kTaskUninterruptible) != 0 ? abi::PT_SAMPLE_UNINTERRUPTIBLE
                                                    : abi::PT_SAMPLE_SLEEPING;
}

// Returns the stack from `sp` on, as far as it can be read.
std::vector<uint8_t> ReadStack(const ProcessMemory& memory, uint64_t sp) {
  std::vector<uint8_t> stack(PT_SAMPLE_STACK_BYTES);
  size_t done = 0;
  if (memory.Read(sp, stack.data(), stack.size())) return stack;
  while (done < stack.size()) {
    const size_t to_page = kStackPageBytes - (sp + done) % kStackPageBytes;
    const size_t bytes = std::min(to_page, stack.size() - done);
    if (!memory.Read(sp + done, stack.data() + done, bytes)) break;
    done += bytes;
  }
  stack.resize(done);
  return stack;
}

}  // namespace

Sampler::Sampler(std::unique_ptr<SamplePrograms> programs, int64_t period_ns)
    : programs_(std::move(programs)), period_ns_(period_ns), writer_(period_ns) {}

Sampler::~Sampler() { Stop(); }

absl::Status Sampler::AddProcess(Pid pid, const SampledProcess& process) {
  abi::pt_sampled_process told{};
  if (process.python.has_value()) told.python = process.python->stack;
  {
    const std::lock_guard lock(mutex_);
    news_.push_back({pid, process});
  }
  return programs_->AddProcess(pid, told);
}

void Sampler::RemoveProcess(Pid pid) {
  programs_->RemoveProcess(pid);
  const std::lock_guard lock(mutex_);
  news_.push_back({pid, std::nullopt});
}

absl::Status Sampler::Start() {
  if (absl::Status status = programs_->Start(period_ns_); !status.ok()) return status;
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

void Sampler::BeginWindow(int64_t start_ns) {
  before_.lost = programs_->lost();
  before_.unsteady = unsteady_.load();
  writer_.BeginWindow(start_ns);
}

void Sampler::Stop() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

void Sampler::TakeNews() {
  std::vector<News> news;
  {
    const std::lock_guard lock(mutex_);
    news.swap(news_);
  }
  for (News& one : news) {
    states_.erase(Raw(one.pid));
    processes_.erase(Raw(one.pid));
    writer_.RemoveProcess(one.pid);
    if (!one.process.has_value()) continue;
    processes_[Raw(one.pid)] = *one.process;
    writer_.AddProcess(one.pid, *std::move(one.process));
  }
}

void Sampler::DrainUntilStopped() {
  while (!stop_.load(std::memory_order_relaxed)) {
    TakeNews();
    programs_->Drain([this](const abi::pt_raw_sample& raw) { OnRunning(raw); });
    writer_.Wake();
    const timespec pause{0, kDrainNs};
    nanosleep(&pause, nullptr);
  }
}

void Sampler::LookUntilStopped() {
  const int64_t start_ns = MonotonicNs();
  int64_t number = 0;
  int64_t last_write_ns = start_ns;
  while (!stop_.load(std::memory_order_relaxed)) {
    // The threads are listed first, because later steps wake threads of ours, which may take the
    // job's threads off their CPUs.
    absl::StatusOr<std::vector<abi::pt_thread_state>> threads = programs_->ListThreads();
    TakeNews();
    programs_->Drain([this](const abi::pt_raw_sample& raw) { OnRunning(raw); });
    const int64_t now_ns = MonotonicNs();
    const int64_t reached = (now_ns - start_ns) / period_ns_ + 1;
    if (threads.ok()) Look(*threads, static_cast<uint32_t>(reached - number));
    number = reached;
    if (now_ns - last_write_ns >= kWriteNs) {
      for (auto& [key, rest] : resting_) Write(key, &rest, /*is_over=*/false);
      last_write_ns = now_ns;
    }
    writer_.Wake();
    const int64_t next_ns = start_ns + number * period_ns_ + TimeNamespaceOffsetNs();
    const timespec next{next_ns / kSecondNs, next_ns % kSecondNs};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, nullptr);
  }
}

void Sampler::Run() {
  if (period_ns_ == 0) {
    DrainUntilStopped();
  } else {
    LookUntilStopped();
  }
  programs_->Stop();
  programs_->Drain([this](const abi::pt_raw_sample& raw) { OnRunning(raw); });
  for (auto& [key, rest] : resting_) Write(key, &rest, /*is_over=*/true);
  writer_.Finish(kLongestFinishNs);
}

void Sampler::OnRunning(const abi::pt_raw_sample& raw) {
  SampleReading reading;
  reading.number = next_reading_++;
  reading.pid = Pid{raw.pid};
  reading.tid = Tid{raw.tid};
  reading.registers = raw.registers;
  reading.flags = raw.flags;
  const size_t frames = std::min<size_t>(raw.frame_count, PT_SAMPLE_FRAMES);
  reading.frames.assign(raw.frames, raw.frames + frames);
  const size_t bytes = std::min<size_t>(raw.stack_bytes, PT_SAMPLE_STACK_BYTES);
  reading.stack.assign(raw.stack, raw.stack + bytes);
  SampleOf sample;
  sample.reading = reading.number;
  sample.is_last = true;
  sample.pid = reading.pid;
  sample.tid = reading.tid;
  sample.time_ns = static_cast<int64_t>(raw.time_ns);
  sample.count = 1;
  sample.call = static_cast<int32_t>(raw.registers.call);
  sample.state = abi::PT_SAMPLE_RUNNING;
  sample.woken = Tid{raw.woken_tid};
  (void)writer_.Add(std::move(reading));
  writer_.Add(sample);
}

void Sampler::Look(const std::vector<abi::pt_thread_state>& threads, uint32_t elapsed) {
  ++looks_;
  std::vector<Reading> readings;
  for (const abi::pt_thread_state& thread : threads) {
    if (thread.on_cpu != 0 || !processes_.contains(thread.pid)) continue;
    const auto known = resting_.find({thread.pid, thread.tid});
    if (known != resting_.end() && known->second.switches == thread.switches) {
      Rest& rest = known->second;
      if (rest.count == 0) rest.begin_ns = static_cast<int64_t>(thread.time_ns);
      rest.count += elapsed;
      rest.last_look = looks_;
      continue;
    }
    readings.push_back(Read(thread));
  }
  // Threads that have run since have left the place where they rested, so their samples are
  // written.
  for (auto it = resting_.begin(); it != resting_.end();) {
    const auto here = it++;
    if (here->second.last_look == looks_) continue;
    Write(here->first, &here->second, /*is_over=*/true);
    resting_.erase(here);
  }
  if (readings.empty()) return;
  const absl::StatusOr<std::vector<abi::pt_thread_state>> again_listed = programs_->ListThreads();
  if (!again_listed.ok()) return;
  absl::flat_hash_map<ThreadKey, const abi::pt_thread_state*> now;
  for (const abi::pt_thread_state& thread : *again_listed) now[{thread.pid, thread.tid}] = &thread;
  for (Reading& reading : readings) {
    const auto again = now.find({reading.thread.pid, reading.thread.tid});
    const bool rested = again != now.end() && again->second->on_cpu == 0 &&
                        again->second->switches == reading.thread.switches;
    if (rested) {
      Keep(std::move(reading));
    } else {
      ++unsteady_;
    }
  }
}

Sampler::Reading Sampler::Read(const abi::pt_thread_state& thread) {
  Reading result{thread, {}};
  SampleReading& reading = result.read;
  reading.pid = Pid{thread.pid};
  reading.tid = Tid{thread.tid};
  reading.registers = thread.registers;
  const ProcessMemory memory(Pid{thread.pid});
  const auto process = processes_.find(thread.pid);
  if (process != processes_.end() && process->second.python.has_value()) {
    const PythonLayout& layout = *process->second.python;
    const uint64_t state = PythonStateOf(Pid{thread.pid}, thread.thread_id, layout);
    if (state != 0) {
      SampledFrames frames = ReadSampledFrames(memory, layout, state);
      reading.frames = std::move(frames.frames);
      reading.flags = frames.flags;
    }
  }
  reading.stack = ReadStack(memory, thread.registers.sp);
  return result;
}

uint64_t Sampler::PythonStateOf(Pid pid, uint64_t thread_id, const PythonLayout& layout) {
  const ProcessMemory memory(pid);
  const auto is_its_own = [&](uint64_t state) {
    return state != 0 && memory.ReadWord(state + layout.stack.thread_id) == thread_id;
  };
  if (layout.stack.state_place != 0) {
    const uint64_t kept = memory.ReadWord(thread_id + layout.stack.state_place).value_or(0);
    if (is_its_own(kept)) return kept;
  }
  PythonStates& states = states_[Raw(pid)];
  const auto known = states.by_thread.find(thread_id);
  if (known != states.by_thread.end() && is_its_own(known->second)) return known->second;
  // A thread that runs only C++ has no state. The lists are not searched for it at each look.
  const int64_t now_ns = MonotonicNs();
  if (now_ns < states.next_search_ns) return 0;
  states.by_thread.clear();
  PythonLimits limits;
  limits.threads = 4096;
  limits.frames = 1;
  for (const PythonThread& thread : ReadPythonThreads(memory, layout, limits).threads) {
    const auto [it, is_new] = states.by_thread.try_emplace(thread.thread_id, thread.state);
    // In a process with several interpreters, the state of the interpreter that the thread was in
    // before has no frames.
    if (!is_new && !thread.frames.empty()) it->second = thread.state;
  }
  // Searches take at most a twentieth of the time, so that a process with endless lists does not
  // hold the others up.
  const int64_t end_ns = MonotonicNs();
  states.next_search_ns = end_ns + std::max(kBetweenSearchesNs, 20 * (end_ns - now_ns));
  const auto found = states.by_thread.find(thread_id);
  return found == states.by_thread.end() ? 0 : found->second;
}

void Sampler::Keep(Reading reading) {
  Rest rest;
  rest.reading = reading.read.number = next_reading_++;
  rest.switches = reading.thread.switches;
  rest.begin_ns = static_cast<int64_t>(reading.thread.time_ns);
  rest.count = 1;
  rest.last_look = looks_;
  rest.call = static_cast<int32_t>(reading.thread.registers.call);
  rest.state = StateOf(reading.thread);
  resting_[{reading.thread.pid, reading.thread.tid}] = rest;
  (void)writer_.Add(std::move(reading.read));
}

void Sampler::Write(const ThreadKey& key, Rest* rest, bool is_over) {
  if (rest->count == 0 && !is_over) return;
  SampleOf sample;
  sample.reading = rest->reading;
  sample.is_last = is_over;
  sample.pid = Pid{key.first};
  sample.tid = Tid{key.second};
  sample.time_ns = rest->begin_ns;
  sample.count = rest->count;
  sample.call = rest->call;
  sample.state = rest->state;
  writer_.Add(sample);
  rest->count = 0;
}

}  // namespace proftrace
