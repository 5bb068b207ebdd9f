// A server of a fixed list of files on this machine's loopback address: one thread, one answer a
// connection, no file held in memory. Who does not know the token gets "Not Found" whatever they
// ask for, and can neither hold the server up nor crowd others out.
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
  int64_t head_ms = 10'000;   // from the connection's begin to the request's end
  int64_t send_ms = 30'000;   // without a byte that goes out
  int64_t linger_ms = 1'000;  // for what a client sends after it was answered
};

// Whether two texts are equal, in a time that tells nothing of where they differ.
bool IsEqualInFixedTime(std::string_view a, std::string_view b);

class HttpServer {
 public:
  // Listens on 127.0.0.1; `port` 0: any free one. Fails with kHostUnfit.
  static absl::StatusOr<HttpServer> Listen(uint16_t port, const HttpLimits& limits = {});
  HttpServer(HttpServer&&) noexcept;
  ~HttpServer();

  uint16_t port() const { return port_; }

  // Answers requests for "/TOKEN/NAME" until `stop` is set, which a signal may do. Returns an error
  // where nobody can connect any more.
  absl::Status Serve(const ServedFiles& files, std::string_view token,
                     const std::atomic<bool>& stop);

 private:
  class Connection;

  HttpServer(UniqueFd listener, uint16_t port, const HttpLimits& limits);
  absl::Status Accept(int64_t now_ms);
  // Makes room for one more, where that harms nobody who is being answered.
  bool MakeRoom();
  void DropLate(int64_t now_ms);

  UniqueFd listener_;
  uint16_t port_;
  HttpLimits limits_;
  std::vector<std::unique_ptr<Connection>> connections_;  // the oldest first
};

}  // namespace proftrace
