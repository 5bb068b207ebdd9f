// Places in TorchScript's graphs, where an interpreter was when a row began.
#pragma once

#include <cstdint>

namespace proftrace {

// Timeline::scripts() has the texts.
enum class ScriptId : uint32_t {};
inline constexpr ScriptId kNoScript{0};  // not recorded, or the thread's interpreter ran nothing

constexpr uint32_t Raw(ScriptId id) { return static_cast<uint32_t>(id); }

}  // namespace proftrace
