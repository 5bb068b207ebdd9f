// How a capture file holds nn.Modules: the entries "module" of its metadata, and "script" for
// modules in TorchScript.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "userspace/wire/metadata.h"

namespace proftrace {

nlohmann::json ModuleToJson(const ModuleKey& module, int64_t told_ns, const std::string& path);
nlohmann::json ScriptToJson(const ScriptKey& key, const ScriptText& text);
// Adds an entry. A later entry with the same key replaces an earlier one.
void MergeModule(const nlohmann::json& entry, CaptureMetadata* metadata);
void MergeScript(const nlohmann::json& entry, CaptureMetadata* metadata);

}  // namespace proftrace
