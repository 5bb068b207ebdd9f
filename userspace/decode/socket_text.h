// Makes names of files and sockets from the bytes that the BPF programs record.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "userspace/model/system_event.h"

namespace proftrace {

// Returns the text of a struct sockaddr as a program has it: "127.0.0.1:80", "[::1]:80",
// "unix:/run/x", "unix:@name" for an abstract name, which is in no file system; "family 16" for
// other families; empty where the bytes are too short.
std::string SocketAddressText(std::span<const uint8_t> address);

// Returns the text of a struct abi::pt_socket_place and the bytes after it:
// "tcp:127.0.0.1:5000->127.0.0.1:80", "udp:0.0.0.0:68", "unix:/run/x"; "unix:[INODE]" for a Unix
// socket without a name; "socket:[INODE]" for other families.
std::string SocketText(std::span<const uint8_t> place, uint64_t inode);

// Returns the text of `names`, which are in order from the file to the outermost folder, each with
// a NUL: an absolute path, "pipe:[INODE]", "anon_inode:[eventfd]", "net:[INODE]" for a namespace.
// `flags` (enum abi::pt_system_file_flag): where the outermost names are missing the path begins
// with "…"; a file that has no name any more ends with " (deleted)", as in /proc.
std::string FileText(SystemFileKind kind, std::span<const uint8_t> names, uint8_t flags,
                     uint64_t inode);

}  // namespace proftrace
