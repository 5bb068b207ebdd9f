#include "userspace/wire/module_metadata.h"

#include <iterator>

#include "userspace/wire/metadata_json.h"

namespace proftrace {

using namespace metadata_json;  // NOLINT(google-build-using-namespace)

nlohmann::json ModuleToJson(const ModuleKey& module, int64_t told_ns, const std::string& path) {
  return {{"type", "module"},          {"pid", Raw(module.pid)},
          {"address", module.address}, {"type_address", module.type},
          {"told_ns", told_ns},        {"path", ToJsonText(path)}};
}

nlohmann::json ScriptToJson(const ScriptKey& key, const ScriptText& text) {
  return {{"type", "script"},
          {"pid", Raw(key.pid)},
          {"image", key.image},
          {"code", key.code},
          {"node", key.node},
          {"text", ToJsonText(text.text)},
          {"prefix", ToJsonText(text.prefix)}};
}

void MergeModule(const nlohmann::json& entry, CaptureMetadata* metadata) {
  const ModuleKey module{Pid{Number<uint32_t>(entry, "pid")}, Number<uint64_t>(entry, "address"),
                         Number<uint64_t>(entry, "type_address")};
  metadata->module_paths[module][Number<int64_t>(entry, "told_ns")] = Text(entry, "path");
}

void MergeScript(const nlohmann::json& entry, CaptureMetadata* metadata) {
  const ScriptKey key{Pid{Number<uint32_t>(entry, "pid")}, Number<uint32_t>(entry, "image"),
                      Number<uint64_t>(entry, "code"), Number<uint64_t>(entry, "node")};
  metadata->scripts[key] = ScriptText{Text(entry, "text"), Text(entry, "prefix")};
}

const std::string* CaptureMetadata::PathOfModule(const ModuleKey& module, int64_t told_ns) const {
  for (const uint64_t type : {module.type, uint64_t{0}}) {
    const auto it = module_paths.find({module.pid, module.address, type});
    if (it == module_paths.end()) continue;
    // Another thread may have defined the module before.
    const auto later = it->second.upper_bound(told_ns);
    if (later != it->second.begin()) return &std::prev(later)->second;
  }
  return nullptr;
}

}  // namespace proftrace
