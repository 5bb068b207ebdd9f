// Serves a fixed list of files on this machine's loopback address: one thread, one answer per
// connection, no file held in memory. A client that does not know the token gets "Not Found"
// whatever it asks for, and can neither delay the server nor push other clients out.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/base/unique_fd.h"
#include "userspace/view/http_request.h"
#include "userspace/view/served_files.h"

namespace proftrace {

struct HttpLimits {
  size_t most_connections = 64;
  int64_t head_ms = 10'000;   // from the start of the connection to the end of the request
  int64_t send_ms = 30'000;   // the longest time without a byte being sent
  int64_t stall_ms = 2'000;   // without a byte being sent, before another client may have the place
  int64_t linger_ms = 1'000;  // how long the bytes are read that a client sends after its answer
};

// Returns whether two texts are equal, in a time that does not depend on where they differ.
bool IsEqualInFixedTime(std::string_view a, std::string_view b);

class HttpServer {
 public:
  // Listens on 127.0.0.1. `port`: 0 takes any free port. Fails with kHostUnfit.
  static absl::StatusOr<HttpServer> Listen(uint16_t port, const HttpLimits& limits = {});
  HttpServer(HttpServer&&) noexcept;
  ~HttpServer();

  uint16_t port() const { return port_; }

  // Answers requests for "/TOKEN/NAME" until `stop` is set, which a signal may do. Returns an error
  // where nobody can connect any more. The process must ignore SIGPIPE, which a client that goes
  // away raises.
  absl::Status Serve(const ServedFiles& files, std::string_view token,
                     const std::atomic<bool>& stop);

 private:
  class Connection;

  HttpServer(UniqueFd listener, uint16_t port, const HttpLimits& limits);
  absl::Status Accept(int64_t now_ms);
  // Makes room for one more connection by dropping one that is not being sent a file, or whose
  // client does not read it. Returns false where there is none to drop.
  bool MakeRoom(int64_t now_ms);
  void DropLate(int64_t now_ms);

  UniqueFd listener_;
  uint16_t port_;
  HttpLimits limits_;
  std::vector<std::unique_ptr<Connection>> connections_;  // the oldest first
};

}  // namespace proftrace
