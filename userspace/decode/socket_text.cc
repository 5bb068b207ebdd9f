#include "userspace/decode/socket_text.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "bpf/abi/system_records.h"

namespace proftrace {
namespace {

constexpr size_t kUnixPathAt = offsetof(sockaddr_un, sun_path);

std::string HostText(int family, const uint8_t* bytes, uint16_t port) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(family, bytes, text, sizeof(text));
  const std::string host = family == AF_INET6 ? "[" + std::string(text) + "]" : text;
  return host + ":" + std::to_string(port);
}

// Returns the text of a sun_path. An abstract one begins with NUL and may hold more NULs.
std::string UnixText(std::span<const uint8_t> path) {
  const bool is_abstract = !path.empty() && path[0] == 0;
  const auto end = std::find(path.begin() + (is_abstract ? 1 : 0), path.end(), 0);
  const std::string name(path.begin() + (is_abstract ? 1 : 0), end);
  if (name.empty()) return "";
  return (is_abstract ? "unix:@" : "unix:") + name;
}

template <typename T>
T Read(std::span<const uint8_t> bytes) {
  T value{};
  if (!bytes.empty()) std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof(value)));
  return value;
}

std::string_view TransportName(uint16_t type) {
  switch (type) {
    case SOCK_STREAM:
      return "tcp:";
    case SOCK_DGRAM:
      return "udp:";
    default:
      return "raw:";
  }
}

}  // namespace

std::string SocketAddressText(std::span<const uint8_t> address) {
  if (address.size() < sizeof(sa_family_t)) return "";
  const auto family = Read<sa_family_t>(address);
  if (family == AF_INET && address.size() >= sizeof(sockaddr_in)) {
    const auto in = Read<sockaddr_in>(address);
    return HostText(AF_INET, reinterpret_cast<const uint8_t*>(&in.sin_addr), ntohs(in.sin_port));
  }
  if (family == AF_INET6 && address.size() >= sizeof(sockaddr_in6)) {
    const auto in = Read<sockaddr_in6>(address);
    return HostText(AF_INET6, reinterpret_cast<const uint8_t*>(&in.sin6_addr), ntohs(in.sin6_port));
  }
  if (family == AF_UNIX) return UnixText(address.subspan(kUnixPathAt));
  return "family " + std::to_string(family);
}

std::string SocketText(std::span<const uint8_t> place, uint64_t inode) {
  const auto facts = Read<abi::pt_socket_place>(place);
  if (facts.family == AF_INET || facts.family == AF_INET6) {
    std::string text(TransportName(facts.type));
    text += HostText(facts.family, facts.local, facts.local_port);
    if (facts.peer_port != 0) text += "->" + HostText(facts.family, facts.peer, facts.peer_port);
    return text;
  }
  if (facts.family == AF_UNIX && place.size() > sizeof(facts)) {
    std::string text = UnixText(place.subspan(sizeof(facts)));
    if (!text.empty()) return text;
  }
  return (facts.family == AF_UNIX ? "unix:[" : "socket:[") + std::to_string(inode) + "]";
}

std::string FileText(SystemFileKind kind, std::span<const uint8_t> names, uint8_t flags,
                     uint64_t inode) {
  std::vector<std::string_view> parts;
  for (size_t at = 0; at < names.size();) {
    const std::string_view rest(reinterpret_cast<const char*>(names.data()) + at,
                                names.size() - at);
    const size_t end = std::min(rest.find('\0'), rest.size());
    parts.push_back(rest.substr(0, end));
    at += end + 1;
  }
  if (kind == SystemFileKind::kPipe && (parts.empty() || parts[0].empty())) {
    return "pipe:[" + std::to_string(inode) + "]";
  }
  if (kind == SystemFileKind::kAnonymous) {
    const std::string name(parts.empty() ? std::string_view() : parts[0]);
    const bool is_namespace = (flags & abi::PT_SYSTEM_FILE_NAMESPACE) != 0;
    return is_namespace ? name + ":[" + std::to_string(inode) + "]" : "anon_inode:" + name;
  }
  std::string text = (flags & abi::PT_SYSTEM_FILE_CUT) != 0 ? "…" : "";
  for (size_t i = parts.size(); i-- > 0;) text.append("/").append(parts[i]);
  if (text.empty()) text = "/";
  return (flags & abi::PT_SYSTEM_FILE_DELETED) != 0 ? text + " (deleted)" : text;
}

}  // namespace proftrace
