#include "symbols/plan/job_identity.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "symbols/process/target_entries.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

constexpr char kInKubernetes[] = "KUBERNETES_SERVICE_HOST";  // set in each container of a pod
constexpr char kHostName[] = "HOSTNAME";
constexpr char kAccountNamespace[] = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
constexpr char kInitialHostNames[] = "uts:[4026531838]";  // PROC_UTS_INIT_INO of the kernel
constexpr size_t kMostControlGroupBytes = 65536;

template <typename T>
std::optional<T> NumberIn(const Environment& environment, std::string_view name) {
  const auto it = environment.find(name);
  if (it == environment.end()) return std::nullopt;
  const auto number = ParseNumber<T>(it->second);
  return number && *number >= 0 ? number : std::nullopt;
}

std::string TextIn(const Environment& environment, std::string_view name) {
  const auto it = environment.find(name);
  return it == environment.end() ? "" : it->second;
}

std::vector<std::string> NamesOfVariables() {
  std::vector<std::string> names = {"RANK", "WORLD_SIZE", kInKubernetes, kHostName};
  const JobIdentity any;
  ForEachJobField(any, [&names](const JobField& field, const auto&) {
    for (std::string_view name : SplitText(field.variables, " ", /*skip_empty=*/true)) {
      names.emplace_back(name);
    }
  });
  return names;
}

}  // namespace

std::string PodUidOf(std::string_view control_groups) {
  constexpr size_t kShortest = 32;  // the uid of a static pod is a hash of 32 digits
  constexpr size_t kLongest = 36;
  for (std::string_view part : SplitText(control_groups, "/\n", /*skip_empty=*/true)) {
    const size_t pod = part.rfind("pod");
    if (pod == std::string_view::npos) continue;
    std::string uid(part.substr(pod + 3));
    if (uid.ends_with(".slice")) uid.resize(uid.size() - std::string_view(".slice").size());
    std::replace(uid.begin(), uid.end(), '_', '-');
    const bool is_uid = uid.size() >= kShortest && uid.size() <= kLongest &&
                        uid.find_first_not_of("0123456789abcdef-") == std::string::npos;
    if (is_uid && Contains(control_groups, "kubepods")) return uid;
  }
  return "";
}

namespace {

// Fills in facts about the pod that its authors did not pass on by variables, from other sources.
// Clears all facts about the pod where the process is in none.
void CompletePod(const Environment& environment, const PodPlace& place, JobIdentity* job) {
  const std::string uid = PodUidOf(place.control_groups);
  if (uid.empty() && !environment.contains(kInKubernetes)) {
    job->kubernetes_pod.clear();
    job->kubernetes_namespace.clear();
    job->kubernetes_pod_uid.clear();
    job->kubernetes_node.clear();
    return;
  }
  if (job->kubernetes_pod_uid.empty()) job->kubernetes_pod_uid = uid;
  // A pod in its host's network has the host's name, which does not name the pod.
  if (job->kubernetes_pod.empty() && place.has_own_host_name) {
    job->kubernetes_pod = TextIn(environment, kHostName);
  }
  if (job->kubernetes_namespace.empty()) job->kubernetes_namespace = place.account_namespace;
}

}  // namespace

JobFacts JobOf(const Environment& environment, const PodPlace& place) {
  JobFacts facts;
  facts.rank = NumberIn<int>(environment, "RANK");
  facts.world_size = NumberIn<int>(environment, "WORLD_SIZE");
  ForEachJobField(facts.identity, [&environment](const JobField& field, auto& value) {
    for (std::string_view name : SplitText(field.variables, " ", /*skip_empty=*/true)) {
      if (!environment.contains(name)) continue;
      if constexpr (std::is_same_v<decltype(value), std::string&>) {
        value = TextIn(environment, name);
      } else {
        value = NumberIn<uint32_t>(environment, name);
      }
      return;
    }
  });
  CompletePod(environment, place, &facts.identity);
  return facts;
}

JobFacts ReadJobFacts(Pid pid, const std::vector<MappedFile>& files) {
  const std::vector<std::string> names = NamesOfVariables();
  const std::string folder = absl::StrCat("/proc/", Raw(pid));
  const Environment environment = ReadEnvironment(pid, files, names);
  PodPlace place;
  place.control_groups = ReadSmallFile(folder + "/cgroup", kMostControlGroupBytes);
  if (environment.contains(kInKubernetes) || Contains(place.control_groups, "kubepods")) {
    const std::string host_names = ReadEntryLink(folder + "/ns/uts");
    place.has_own_host_name = !host_names.empty() && host_names != kInitialHostNames;
    place.account_namespace =
        StripBlanks(ReadSmallFileInTargetRoot(pid, kAccountNamespace, kMostJobTextBytes));
  }
  return JobOf(environment, place);
}

}  // namespace proftrace
