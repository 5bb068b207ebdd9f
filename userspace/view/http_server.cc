#include "userspace/view/http_server.h"

#include <absl/strings/str_cat.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

constexpr std::string_view kHeadEnd = "\r\n\r\n";
constexpr int kBacklog = 128;
constexpr int kMostAccepted = 16;  // new connections that are accepted before the others go on
// The longest wait. A stop that was set just before the wait began is seen after it.
constexpr int kLongestWaitMs = 250;
constexpr uint64_t kMostAtOnce = 1 << 20;  // bytes that one connection sends before others may

int64_t NowMs() { return MonotonicNs() / 1'000'000; }

// Headers of every answer: nothing stores the answer, guesses its type, passes its address on as a
// referrer, or embeds it in a foreign page.
constexpr char kCommonHeaders[] =
    "Connection: close\r\n"
    "Cache-Control: no-store\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n";

std::string HeadOf(HttpStatus status, std::string_view type, uint64_t bytes,
                   const std::string& more) {
  const std::string_view words = HttpStatusText(status);
  return absl::StrCat("HTTP/1.1 ", static_cast<int>(status), " ",
                      absl::string_view(words.data(), words.size()),
                      "\r\nContent-Type: ", absl::string_view(type.data(), type.size()),
                      "\r\nContent-Length: ", bytes, "\r\n", kCommonHeaders, more, "\r\n");
}

std::string ErrorAnswer(HttpStatus status, bool is_head, const std::string& more = "") {
  const std::string body = std::string(HttpStatusText(status)) + "\n";
  std::string answer = HeadOf(status, "text/plain; charset=utf-8", body.size(),
                              "Content-Security-Policy: default-src 'none'\r\n" + more);
  if (!is_head) answer += body;
  return answer;
}

}  // namespace

bool IsEqualInFixedTime(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  volatile unsigned char differs = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    differs = differs | static_cast<unsigned char>(a[i] ^ b[i]);
  }
  return differs == 0;
}

// One client, from its first byte to its last one.
class HttpServer::Connection {
 public:
  Connection(UniqueFd socket, int64_t deadline_ms)
      : socket_(std::move(socket)), deadline_ms_(deadline_ms) {}

  int fd() const { return socket_.get(); }
  bool is_asking() const { return phase_ == Phase::kAsking; }
  // Returns whether the client is being sent a file, for which it had to know the token.
  bool is_served() const { return phase_ == Phase::kAnswering && file_ != nullptr; }
  bool is_late(int64_t now_ms) const { return now_ms >= deadline_ms_; }
  // Returns whether another client may have this one's place: this one may be anybody, or has not
  // read for a while.
  bool may_give_way(const HttpLimits& limits, int64_t now_ms) const {
    return !is_served() || now_ms - (deadline_ms_ - limits.send_ms) >= limits.stall_ms;
  }
  short wanted() const { return phase_ == Phase::kAnswering ? POLLOUT : POLLIN; }

  // Reads and sends as far as that is possible without waiting. Returns false when the connection
  // has ended.
  bool GoOn(const ServedFiles& files, std::string_view token, const HttpLimits& limits,
            int64_t now_ms) {
    if (phase_ == Phase::kAsking) {
      if (!ReadHead(files, token)) return false;
      if (phase_ == Phase::kAsking) return true;
      deadline_ms_ = now_ms + limits.send_ms;
    }
    if (phase_ == Phase::kAnswering) {
      if (!Send(limits, now_ms)) return false;
      if (phase_ == Phase::kAnswering) return true;
      // Only the sending side is closed: if the socket was closed while the client still sends, the
      // kernel would reset the connection and the answer would be lost.
      (void)shutdown(fd(), SHUT_WR);
      deadline_ms_ = now_ms + limits.linger_ms;
    }
    return Linger();
  }

  // Tells a client that has not sent its request in time.
  void TellLate() {
    if (!is_asking()) return;
    const std::string answer = ErrorAnswer(HttpStatus::kRequestTimeout, /*is_head=*/false);
    (void)send(fd(), answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }

 private:
  enum class Phase { kAsking, kAnswering, kLingering };

  bool ReadHead(const ServedFiles& files, std::string_view token) {
    char part[2048];
    while (phase_ == Phase::kAsking) {
      const ssize_t got = recv(fd(), part, sizeof(part), MSG_DONTWAIT);
      if (got < 0) return errno == EAGAIN || errno == EINTR;
      if (got == 0) return false;
      // The end of the head may be spread over two parts.
      const size_t searched = head_.size() < kHeadEnd.size() ? 0 : head_.size() - kHeadEnd.size();
      head_.append(part, static_cast<size_t>(got));
      const size_t end = head_.find(kHeadEnd, searched);
      if (end != std::string::npos && end <= kMostHeadBytes) {
        Answer(std::string_view(head_).substr(0, end + 2), files, token);
      } else if (head_.size() > kMostHeadBytes) {
        AnswerError(HttpStatus::kHeadTooLarge, /*is_head=*/false);
      }
    }
    return true;
  }

  void AnswerError(HttpStatus status, bool is_head, const std::string& more = "") {
    answer_ = ErrorAnswer(status, is_head, more);
    phase_ = Phase::kAnswering;
  }

  void Answer(std::string_view head, const ServedFiles& files, std::string_view token) {
    const std::variant<HttpRequest, HttpStatus> parsed = ParseHttpRequest(head);
    if (const HttpStatus* status = std::get_if<HttpStatus>(&parsed)) {
      return AnswerError(*status, /*is_head=*/false,
                         *status == HttpStatus::kMethodNotAllowed ? "Allow: GET, HEAD\r\n" : "");
    }
    const HttpRequest& request = std::get<HttpRequest>(parsed);
    const std::string_view path = request.path.substr(1);
    const size_t slash = path.find('/');
    const bool is_known = IsEqualInFixedTime(path.substr(0, slash), token);
    const ServedFile* file =
        is_known && slash != std::string_view::npos ? files.Find(path.substr(slash + 1)) : nullptr;
    if (file == nullptr) return AnswerError(HttpStatus::kNotFound, request.is_head);
    AnswerWith(*file, request);
  }

  void AnswerWith(const ServedFile& file, const HttpRequest& request) {
    std::string more = "Accept-Ranges: bytes\r\n" + file.headers();
    HttpStatus status = HttpStatus::kOk;
    ByteStretch stretch{0, file.bytes()};
    if (request.range.has_value()) {
      const std::optional<ByteStretch> asked = StretchOf(*request.range, file.bytes());
      if (!asked.has_value()) {
        return AnswerError(HttpStatus::kRangeNotSatisfiable, request.is_head,
                           absl::StrCat("Content-Range: bytes */", file.bytes(), "\r\n"));
      }
      stretch = *asked;
      status = HttpStatus::kPartialContent;
      more += absl::StrCat("Content-Range: bytes ", stretch.offset, "-",
                           stretch.offset + stretch.bytes - 1, "/", file.bytes(), "\r\n");
    }
    answer_ = HeadOf(status, file.type(), stretch.bytes, more);
    if (!request.is_head) {
      file_ = &file;
      at_ = stretch.offset;
      left_ = stretch.bytes;
    }
    phase_ = Phase::kAnswering;
  }

  // Sends some bytes of the answer, and returns the same as ServedFile::Send().
  int64_t SendSome() {
    if (answer_sent_ == answer_.size()) return file_->Send(fd(), at_, std::min(left_, kMostAtOnce));
    const ssize_t sent = send(fd(), answer_.data() + answer_sent_, answer_.size() - answer_sent_,
                              MSG_NOSIGNAL | MSG_DONTWAIT | (left_ > 0 ? MSG_MORE : 0));
    if (sent < 0) return errno == EAGAIN || errno == EINTR ? 0 : -1;
    return sent;
  }

  bool Send(const HttpLimits& limits, int64_t now_ms) {
    for (uint64_t all = 0; all < kMostAtOnce && (answer_sent_ < answer_.size() || left_ > 0);) {
      const bool is_answer = answer_sent_ < answer_.size();
      const int64_t sent = SendSome();
      if (sent < 0) return false;
      if (sent == 0) return true;
      if (is_answer) {
        answer_sent_ += static_cast<size_t>(sent);
      } else {
        at_ += static_cast<uint64_t>(sent);
        left_ -= static_cast<uint64_t>(sent);
      }
      all += static_cast<uint64_t>(sent);
      deadline_ms_ = now_ms + limits.send_ms;
    }
    if (answer_sent_ == answer_.size() && left_ == 0) phase_ = Phase::kLingering;
    return true;
  }

  bool Linger() {
    char part[2048];
    const ssize_t got = recv(fd(), part, sizeof(part), MSG_DONTWAIT);
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
  }

  UniqueFd socket_;
  int64_t deadline_ms_;
  Phase phase_ = Phase::kAsking;
  std::string head_;
  std::string answer_;  // the head of the answer, and the body of an error
  size_t answer_sent_ = 0;
  const ServedFile* file_ = nullptr;
  uint64_t at_ = 0;
  uint64_t left_ = 0;
};

HttpServer::HttpServer(UniqueFd listener, uint16_t port, const HttpLimits& limits)
    : listener_(std::move(listener)), port_(port), limits_(limits) {}
HttpServer::HttpServer(HttpServer&&) noexcept = default;
HttpServer::~HttpServer() = default;

absl::StatusOr<HttpServer> HttpServer::Listen(uint16_t port, const HttpLimits& limits) {
  const auto failed = [port](int error) {
    return Fail(ExitCode::kHostUnfit,
                absl::StrCat("cannot listen on 127.0.0.1 port ", port, ": ", ErrnoText(error),
                             "; leave out --port, and a free one is taken"));
  };
  UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.valid()) return failed(errno);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (port != 0) {
    // Lets the server take a port whose last server has just ended.
    const int yes = 1;
    (void)setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  }
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      listen(listener.get(), kBacklog) != 0 ||
      getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return failed(errno);
  }
  return HttpServer(std::move(listener), ntohs(address.sin_port), limits);
}

bool HttpServer::MakeRoom(int64_t now_ms) {
  if (connections_.size() < limits_.most_connections) return true;
  // A client that has not shown the token may be anybody, and a browser asks again. Only where all
  // have shown it, one that does not read gives way.
  auto given = std::find_if(connections_.begin(), connections_.end(),
                            [](const auto& connection) { return !connection->is_served(); });
  if (given == connections_.end()) {
    given = std::find_if(connections_.begin(), connections_.end(), [&](const auto& connection) {
      return connection->may_give_way(limits_, now_ms);
    });
  }
  if (given == connections_.end()) return false;
  connections_.erase(given);
  return true;
}

absl::Status HttpServer::Accept(int64_t now_ms) {
  for (int i = 0; i < kMostAccepted; ++i) {
    UniqueFd client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!client.valid()) {
      // The server goes on where a client went away, or where there are no free descriptors for a
      // moment.
      if (errno == EBADF || errno == EINVAL || errno == ENOSYS || errno == EPERM) {
        return Fail(ExitCode::kHostUnfit, "nobody can connect any more: " + ErrnoText(errno));
      }
      return absl::OkStatus();
    }
    if (!MakeRoom(now_ms)) return absl::OkStatus();
    connections_.push_back(
        std::make_unique<Connection>(std::move(client), now_ms + limits_.head_ms));
  }
  return absl::OkStatus();
}

void HttpServer::DropLate(int64_t now_ms) {
  std::erase_if(connections_, [now_ms](const auto& connection) {
    if (!connection->is_late(now_ms)) return false;
    connection->TellLate();
    return true;
  });
}

absl::Status HttpServer::Serve(const ServedFiles& files, std::string_view token,
                               const std::atomic<bool>& stop) {
  std::vector<pollfd> waits;
  while (!stop.load(std::memory_order_relaxed)) {
    waits.clear();
    for (const auto& connection : connections_) {
      waits.push_back({connection->fd(), connection->wanted(), 0});
    }
    const int64_t begin_ms = NowMs();
    const bool is_full =
        connections_.size() >= limits_.most_connections &&
        std::none_of(connections_.begin(), connections_.end(),
                     [&](const auto& one) { return one->may_give_way(limits_, begin_ms); });
    waits.push_back({is_full ? -1 : listener_.get(), POLLIN, 0});
    (void)poll(waits.data(), waits.size(), kLongestWaitMs);
    const int64_t now_ms = NowMs();
    for (size_t i = 0; i + 1 < waits.size(); ++i) {
      if (waits[i].revents == 0) continue;
      if (!connections_[i]->GoOn(files, token, limits_, now_ms)) connections_[i].reset();
    }
    std::erase(connections_, nullptr);
    DropLate(now_ms);
    if ((waits.back().revents & POLLIN) == 0) continue;
    if (absl::Status status = Accept(now_ms); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace proftrace
