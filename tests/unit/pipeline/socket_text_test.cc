// How files and sockets are called.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "bpf/abi/system_records.h"
#include "userspace/decode/socket_text.h"

namespace proftrace {
namespace {

std::string Names(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text.append(name).push_back('\0');
  return text;
}

TEST(SocketTextTest, Addresses) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_port = htons(80);
  in.sin_addr.s_addr = htonl(0x7f000001);
  const auto bytes = [](const auto& object, size_t size) {
    return std::span(reinterpret_cast<const uint8_t*>(&object), size);
  };
  EXPECT_EQ(SocketAddressText(bytes(in, sizeof(in))), "127.0.0.1:80");
  EXPECT_EQ(SocketAddressText(bytes(in, 1)), "");
  EXPECT_EQ(SocketAddressText(bytes(in, 4)), "family 2");
  sockaddr_in6 in6{};
  in6.sin6_family = AF_INET6;
  in6.sin6_port = htons(443);
  in6.sin6_addr = in6addr_loopback;
  EXPECT_EQ(SocketAddressText(bytes(in6, sizeof(in6))), "[::1]:443");
  sockaddr_un un{};
  un.sun_family = AF_UNIX;
  std::strcpy(un.sun_path, "/run/x");
  EXPECT_EQ(SocketAddressText(bytes(un, sizeof(un))), "unix:/run/x");
  std::memcpy(un.sun_path, "\0abstract\0", 10);
  EXPECT_EQ(SocketAddressText(bytes(un, sizeof(un))), "unix:@abstract");
}

TEST(SocketTextTest, Files) {
  const auto bytes = [](const std::string& text) {
    return std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  };
  const std::string names = Names({"c", "b", "a"});
  EXPECT_EQ(FileText(SystemFileKind::kRegular, bytes(names), 0, 1), "/a/b/c");
  EXPECT_EQ(FileText(SystemFileKind::kRegular, bytes(names), abi::PT_SYSTEM_FILE_CUT, 1),
            "…/a/b/c");
  EXPECT_EQ(FileText(SystemFileKind::kDirectory, {}, 0, 1), "/");
  EXPECT_EQ(FileText(SystemFileKind::kPipe, {}, 0, 17), "pipe:[17]");
  EXPECT_EQ(FileText(SystemFileKind::kPipe, bytes(names), 0, 17), "/a/b/c");
  EXPECT_EQ(FileText(SystemFileKind::kAnonymous, bytes(Names({"[eventfd]"})), 0, 1),
            "anon_inode:[eventfd]");
  EXPECT_EQ(
      FileText(SystemFileKind::kAnonymous, bytes(Names({"net"})), abi::PT_SYSTEM_FILE_NAMESPACE, 7),
      "net:[7]");
  EXPECT_EQ(FileText(SystemFileKind::kRegular, bytes(names), abi::PT_SYSTEM_FILE_DELETED, 1),
            "/a/b/c (deleted)");
  EXPECT_EQ(SocketText({}, 9), "socket:[9]");
}

// As damage or a clock that jumps makes them.

}  // namespace
}  // namespace proftrace
