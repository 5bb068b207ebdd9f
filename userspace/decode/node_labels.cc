// The part of Decoder for labels of events and the names of rows of autograd nodes.
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "bpf/abi/records.h"
#include "userspace/decode/decoder.h"
#include "userspace/model/name_limits.h"

namespace proftrace {
namespace {

// The most labels, which bounds names that never repeat. This is twice as many as the Timeline
// keeps, so that the Timeline, which reports it, is full first, although some labels get no rows.
constexpr size_t kMostEventLabels = 2 * kMostNames;

constexpr std::string_view kGeneratedPrefix = "torch::autograd::generated::";

// Returns a node's name() as in torch: generated classes override it with the bare class name,
// others return their demangled type (torch/csrc/autograd/function.cpp).
std::string_view NodeNameFromClass(std::string_view name) {
  if (name.starts_with(kGeneratedPrefix)) name.remove_prefix(kGeneratedPrefix.size());
  return name;
}

}  // namespace

EventLabel Decoder::InternLabel(const Label& label) {
  return InternBounded(label, kMostEventLabels, &labels_, &label_ids_);
}

std::string Decoder::NodeName(const ImageTable& image, const abi::pt_node_record& record) const {
  if (record.type_name[0] != '\0') {
    return std::string(record.type_name, strnlen(record.type_name, sizeof(record.type_name)));
  }
  const auto found = image.node_names.find(record.vtable);
  if (found == image.node_names.end()) return "";
  if (found->second == "torch::autograd::PyNode") {
    const auto type = image.python_type_names.find(record.python_type);
    return type == image.python_type_names.end() ? "" : type->second;
  }
  return std::string(NodeNameFromClass(found->second));
}

bool Decoder::DecodeNode(const abi::pt_node_record& record, const Process& process, Event* event) {
  event->type = EventType::kBegin;
  const EventLabel prefix = SiteLabel(process, record.head.site);
  const size_t length = strnlen(record.type_name, sizeof(record.type_name));
  if (length + 1 < sizeof(record.type_name) || prefix == kUnnamedLabel) {
    event->label = NodeLabel(process, record.head.site, record);
    return true;
  }
  event->label = kUnnamedLabel;
  pending_names_[Raw(event->tid)] =
      PendingName{*event, std::string(record.type_name, length), kLengthNotTold, labels_[prefix]};
  return false;
}

EventLabel Decoder::NodeLabel(const Process& process, uint16_t site,
                              const abi::pt_node_record& record) {
  const EventLabel prefix_label = SiteLabel(process, site);
  if (prefix_label == kUnnamedLabel) return kUnnamedLabel;
  // The key is everything that the name depends on.
  std::string key(reinterpret_cast<const char*>(&record.vtable),
                  sizeof(record) - offsetof(abi::pt_node_record, vtable));
  key.append(reinterpret_cast<const char*>(&process.image), sizeof(process.image));
  key.append(reinterpret_cast<const char*>(&prefix_label), sizeof(prefix_label));
  const auto it = node_labels_.find(key);
  if (it != node_labels_.end()) return it->second;

  EventLabel result = kUnnamedLabel;
  const auto image = metadata_.images.find(process.image);
  const std::string name = image == metadata_.images.end() ? "" : NodeName(image->second, record);
  if (!name.empty()) {
    Label label = labels_[prefix_label];
    label.name += name;
    result = InternLabel(label);
  }
  // A label that is not kept is made again for each of its rows.
  if (node_labels_.size() < kMostEventLabels) node_labels_.emplace(std::move(key), result);
  return result;
}

}  // namespace proftrace
