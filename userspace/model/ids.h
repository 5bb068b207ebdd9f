// Strong types for the numbers that must not be mixed up.
#pragma once

#include <cstdint>
#include <functional>

namespace proftrace {

// Process id (the kernel's tgid) and thread id (the kernel's pid), in the PID namespace of the
// tracer.
enum class Pid : uint32_t {};
enum class Tid : uint32_t {};

// Indices into the tables of one Timeline.
enum class SpanId : uint32_t {};
enum class LabelId : uint32_t {};
enum class PathId : uint32_t {};
enum class ThreadIndex : uint32_t {};

inline constexpr SpanId kNoSpan{0xffffffffu};
inline constexpr PathId kRootPath{0};

constexpr uint32_t Raw(Pid id) { return static_cast<uint32_t>(id); }
constexpr uint32_t Raw(Tid id) { return static_cast<uint32_t>(id); }
constexpr uint32_t Raw(SpanId id) { return static_cast<uint32_t>(id); }
constexpr uint32_t Raw(LabelId id) { return static_cast<uint32_t>(id); }
constexpr uint32_t Raw(PathId id) { return static_cast<uint32_t>(id); }
constexpr uint32_t Raw(ThreadIndex id) { return static_cast<uint32_t>(id); }

}  // namespace proftrace
