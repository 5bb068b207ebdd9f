#include "userspace/cli/dump_text.h"

#include <absl/strings/str_format.h>

#include <nlohmann/json.hpp>

#include "userspace/base/shown_text.h"
#include "userspace/cli/say.h"

namespace proftrace {

namespace {

using Json = nlohmann::json;

Json OrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

}  // namespace

std::string_view ThreadStateName(ThreadState state) {
  switch (state) {
    case ThreadState::kRuns:
      break;
    case ThreadState::kWaits:
      return "waiting";
    case ThreadState::kStopped:
      return "stopped";
    case ThreadState::kInPageFault:
      return "page fault";
  }
  return "running";
}

Json StackJson(const DumpedStack& stack) {
  Json frames = Json::array();
  for (const DumpedFrame& frame : stack.frames) {
    frames.push_back({{"file", frame.file},
                      {"line", frame.line ? Json(*frame.line) : Json()},
                      {"name", frame.name},
                      {"qualified_name", frame.qualified_name},
                      {"first_line", frame.first_line}});
  }
  return {{"interpreter", stack.interpreter},
          {"thread_name", OrNull(stack.thread_name)},
          {"gil", stack.has_gil         ? Json("held")
                  : stack.waits_for_gil ? Json("awaited")
                                        : Json()},
          {"frames", frames},
          {"cut", stack.is_cut},
          {"failed", stack.failed}};
}

Json DumpJson(const ProcessDump& dump) {
  Json threads = Json::array();
  for (const DumpedThread& thread : dump.threads) {
    Json stacks = Json::array();
    for (const DumpedStack& stack : thread.stacks) stacks.push_back(StackJson(stack));
    threads.push_back({{"tid", thread.tid == 0 ? Json() : Json(thread.tid)},
                       {"comm", thread.comm},
                       {"state", ThreadStateName(thread.state)},
                       {"system_call", OrNull(thread.system_call)},
                       {"file", OrNull(thread.file)},
                       {"kernel_function", OrNull(thread.kernel_function)},
                       {"stacks", stacks}});
  }
  return {
      {"pid", Raw(dump.pid)},
      {"comm", dump.comm},
      {"python_version", dump.python_version},
      {"interpreters", dump.interpreters},
      {"stopped_ms", dump.stopped_ns ? Json(static_cast<double>(*dump.stopped_ns) / 1e6) : Json()},
      {"not_stopped", OrNull(dump.not_stopped)},
      {"was_stopped", dump.was_stopped},
      {"standstill", OrNull(dump.standstill)},
      {"whole", dump.is_whole},
      {"threads", threads}};
}

std::string WaitText(const DumpedThread& thread) {
  if (thread.tid == 0) return "thread of the system not known";
  std::string call = thread.system_call;
  if (!thread.file.empty()) call += " (" + ShownText(thread.file) + ")";
  switch (thread.state) {
    case ThreadState::kRuns:
      break;
    case ThreadState::kStopped:
      return "stopped by a signal" + (call.empty() ? "" : " in " + call);
    case ThreadState::kInPageFault:
      return "waits in a page fault";
    case ThreadState::kWaits:
      return "waits in " + (call.empty() ? "the kernel (" + thread.kernel_function + ")" : call);
  }
  return "running";
}

namespace {

void AppendStack(const DumpedStack& stack, std::string* text) {
  for (const DumpedFrame& frame : stack.frames) {
    if (frame.file.empty()) {
      absl::StrAppendFormat(text, "    (a frame that could not be read)\n");
      continue;
    }
    absl::StrAppendFormat(text, "    %s (%s", ShownText(frame.qualified_name).c_str(),
                          ShownText(frame.file).c_str());
    if (frame.line) absl::StrAppendFormat(text, ":%d", *frame.line);
    absl::StrAppendFormat(text, ")\n");
  }
  if (stack.is_cut) absl::StrAppendFormat(text, "    (more frames further out)\n");
  if (stack.failed) absl::StrAppendFormat(text, "    (further out something could not be read)\n");
}

void AppendThread(const DumpedThread& thread, std::string* text) {
  absl::StrAppendFormat(text, "\nThread %u (%s): %s", thread.tid, ShownText(thread.comm).c_str(),
                        WaitText(thread).c_str());
  if (thread.stacks.empty()) {
    absl::StrAppendFormat(text, ", no Python\n");
    return;
  }
  for (const DumpedStack& stack : thread.stacks) {
    if (stack.has_gil) absl::StrAppendFormat(text, ", holds the GIL");
    if (stack.waits_for_gil) absl::StrAppendFormat(text, ", waits for the GIL");
    if (!stack.thread_name.empty())
      absl::StrAppendFormat(text, ", \"%s\"", ShownText(stack.thread_name).c_str());
  }
  absl::StrAppendFormat(text, "\n");
  for (const DumpedStack& stack : thread.stacks) {
    if (stack.interpreter != 0) {
      absl::StrAppendFormat(text, "  in subinterpreter %d:\n", stack.interpreter);
    }
    AppendStack(stack, text);
  }
}

}  // namespace

std::string DumpText(const ProcessDump& dump) {
  std::string text;
  absl::StrAppendFormat(&text, "PID %u (%s), Python %s, %zu thread%s", Raw(dump.pid),
                        ShownText(dump.comm).c_str(), ShownText(dump.python_version).c_str(),
                        dump.threads.size(), dump.threads.size() == 1 ? "" : "s");
  if (dump.interpreters > 1) absl::StrAppendFormat(&text, ", %u interpreters", dump.interpreters);
  if (dump.was_stopped) absl::StrAppendFormat(&text, ", stopped by a signal before");
  if (dump.stopped_ns) {
    absl::StrAppendFormat(&text, ", stopped for %.1f ms\n",
                          static_cast<double>(*dump.stopped_ns) / 1e6);
  } else {
    absl::StrAppendFormat(&text, ", not stopped: %s\n", ShownText(dump.not_stopped).c_str());
  }
  if (!dump.standstill.empty())
    absl::StrAppendFormat(&text, "%s\n", ShownText(dump.standstill).c_str());
  for (const DumpedThread& thread : dump.threads) AppendThread(thread, &text);
  if (!dump.is_whole)
    absl::StrAppendFormat(&text, "\nThere are Python threads that could not be read.\n");
  return text;
}

void PrintStack(const DumpedStack& stack) {
  std::string text;
  AppendStack(stack, &text);
  Print("%s", text.c_str());
}

void PrintDump(const ProcessDump& dump) { Print("%s", DumpText(dump).c_str()); }

}  // namespace proftrace
