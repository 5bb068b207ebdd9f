#include "userspace/view/http_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>
#include <thread>

namespace proftrace {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr char kToken[] = "00112233445566778899aabbccddeeff";
constexpr int kPatienceMs = 20'000;
constexpr uint64_t kLargeBytes = uint64_t{64} << 20;

// A connection as a client of any kind makes it.
class Client {
 public:
  explicit Client(uint16_t port) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }

  bool Send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  // Returns what comes until the server has ended the connection.
  std::string ReadAll() const {
    std::string all;
    char part[65536];
    pollfd wait{socket_.get(), POLLIN, 0};
    while (poll(&wait, 1, kPatienceMs) == 1) {
      const ssize_t got = recv(socket_.get(), part, sizeof(part), 0);
      if (got <= 0) return all;
      all.append(part, static_cast<size_t>(got));
    }
    ADD_FAILURE() << "the server neither answers nor ends the connection";
    return all;
  }

 private:
  UniqueFd socket_;
};

std::string BodyOf(const std::string& answer) {
  const size_t end = answer.find("\r\n\r\n");
  return end == std::string::npos ? "" : answer.substr(end + 4);
}

class HttpServerTest : public testing::Test {
 protected:
  void Start(const HttpLimits& limits = {}) {
    absl::StatusOr<HttpServer> server = HttpServer::Listen(0, limits);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = std::make_unique<HttpServer>(*std::move(server));
    ServedFile page("text/html", "X-Own: yes\r\n");
    page.AddText("first page");
    files_.Add("", std::move(page));
    files_.Add("pieces", Pieces());
    thread_ = std::thread([this] { status_ = server_->Serve(files_, kToken, stop_); });
  }

  // As the command does: who goes away in the middle of an answer does not end the server.
  void SetUp() override { std::signal(SIGPIPE, SIG_IGN); }
  void TearDown() override {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    EXPECT_TRUE(status_.ok()) << status_;
  }

  // A text, a stretch of a file, a text.
  static ServedFile Pieces() {
    const auto fd = std::make_shared<const UniqueFd>(memfd_create("pieces", MFD_CLOEXEC));
    EXPECT_TRUE(WriteFully(fd->get(), "0123456789"));
    ServedFile pieces("text/plain");
    pieces.AddText("ab");
    pieces.AddStretch(fd, 3, 4);
    pieces.AddText("yz");
    return pieces;
  }

  void AddLarge() {
    const auto fd = std::make_shared<const UniqueFd>(memfd_create("large", MFD_CLOEXEC));
    ASSERT_EQ(ftruncate(fd->get(), kLargeBytes), 0);
    ServedFile large("application/octet-stream");
    large.AddStretch(fd, 0, kLargeBytes);
    files_.Add("large", std::move(large));
  }

  std::string Ask(const std::string& request) const {
    const Client client(server_->port());
    EXPECT_TRUE(client.Send(request));
    return client.ReadAll();
  }

  std::string Get(const std::string& path, const std::string& headers = "",
                  const std::string& method = "GET") const {
    return Ask(method + " " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\n" + headers + "\r\n");
  }

  std::string Path(const std::string& name) const { return std::string("/") + kToken + "/" + name; }

  std::unique_ptr<HttpServer> server_;
  ServedFiles files_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
  absl::Status status_;
};

TEST_F(HttpServerTest, GivesAFile) {
  Start();
  const std::string answer = Get(Path(""));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  for (const char* header :
       {"Content-Type: text/html\r\n", "Content-Length: 10\r\n", "X-Own: yes\r\n",
        "Cache-Control: no-store\r\n", "X-Content-Type-Options: nosniff\r\n",
        "Referrer-Policy: no-referrer\r\n", "Connection: close\r\n"}) {
    EXPECT_THAT(answer, HasSubstr(header));
  }
  EXPECT_EQ(BodyOf(answer), "first page");
  EXPECT_THAT(answer, Not(HasSubstr("Access-Control-Allow-Origin")));
}

TEST_F(HttpServerTest, HeadHasNoBody) {
  Start();
  const std::string answer = Get(Path("pieces"), "", "HEAD");
  EXPECT_THAT(answer, HasSubstr("Content-Length: 8\r\n"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\n"));
  EXPECT_THAT(Get("/nothing", "", "HEAD"), EndsWith("\r\n\r\n"));
}

TEST_F(HttpServerTest, PiecesAndRangesOfThem) {
  Start();
  EXPECT_EQ(BodyOf(Get(Path("pieces"))), "ab3456yz");
  const std::string part = Get(Path("pieces"), "Range: bytes=1-6\r\n");
  EXPECT_THAT(part, StartsWith("HTTP/1.1 206 Partial Content\r\n"));
  EXPECT_THAT(part, HasSubstr("Content-Range: bytes 1-6/8\r\n"));
  EXPECT_EQ(BodyOf(part), "b3456y");
  EXPECT_EQ(BodyOf(Get(Path("pieces"), "Range: bytes=-1\r\n")), "z");
  const std::string behind = Get(Path("pieces"), "Range: bytes=8-\r\n");
  EXPECT_THAT(behind, StartsWith("HTTP/1.1 416 "));
  EXPECT_THAT(behind, HasSubstr("Content-Range: bytes */8\r\n"));
}

TEST_F(HttpServerTest, WithoutTheTokenThereIsNothing) {
  Start();
  std::string other = kToken;
  other.back() = '0';
  const std::string longer = std::string(kToken) + "0";
  for (const std::string& path :
       {std::string("/"), std::string("/pieces"), "/" + std::string(kToken), "/" + other + "/",
        "/" + longer + "/pieces", "/" + longer.substr(0, 10) + "/", Path("other"),
        Path("../pieces"), Path("%70ieces"), Path("pieces/"), Path("/pieces"),
        "/x/" + std::string(kToken) + "/pieces"}) {
    const std::string answer = Get(path);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 404 Not Found\r\n")) << path;
    EXPECT_EQ(BodyOf(answer), "Not Found\n") << path;
  }
}

TEST_F(HttpServerTest, HostileRequestsAreAnswered) {
  Start();
  EXPECT_THAT(Ask("GET " + Path("") + " HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
              StartsWith("HTTP/1.1 421 "));
  EXPECT_THAT(Get(Path(""), "", "POST"), HasSubstr("Allow: GET, HEAD\r\n"));
  EXPECT_THAT(Ask("\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Ask(std::string("\0\xff\r\n\r\n", 6)), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Get("/" + std::string(9000, 'a')), StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(Get(Path(""), "X: " + std::string(kMostHeadBytes, 'a') + "\r\n"),
              StartsWith("HTTP/1.1 431 "));
  // A body that is sent all the same takes nothing from the answer.
  EXPECT_THAT(Ask("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 300000\r\n\r\n" +
                  std::string(300'000, 'x')),
              StartsWith("HTTP/1.1 405 "));
}

TEST_F(HttpServerTest, ARequestMayComeInParts) {
  Start();
  const Client client(server_->port());
  for (const char c : "GET " + Path("pieces") + " HTTP/1.1\r\nHost: localhost\r\n\r\n") {
    ASSERT_TRUE(client.Send(std::string(1, c)));
  }
  EXPECT_EQ(BodyOf(client.ReadAll()), "ab3456yz");
}

TEST_F(HttpServerTest, WhoDoesNotAskInTimeIsTold) {
  HttpLimits limits;
  limits.head_ms = 50;
  Start(limits);
  const Client silent(server_->port());
  const Client slow(server_->port());
  EXPECT_TRUE(slow.Send("GET / HT"));
  EXPECT_THAT(silent.ReadAll(), StartsWith("HTTP/1.1 408 "));
  EXPECT_THAT(slow.ReadAll(), StartsWith("HTTP/1.1 408 "));
}

TEST_F(HttpServerTest, ManyThatDoNotAskKeepNobodyOut) {
  HttpLimits limits;
  limits.most_connections = 4;
  Start(limits);
  std::vector<std::unique_ptr<Client>> silent;
  for (int i = 0; i < 60; ++i) silent.push_back(std::make_unique<Client>(server_->port()));
  EXPECT_EQ(BodyOf(Get(Path("pieces"))), "ab3456yz");
  for (int i = 0; i < 60; ++i) silent.push_back(std::make_unique<Client>(server_->port()));
  EXPECT_EQ(BodyOf(Get(Path(""))), "first page");
}

TEST_F(HttpServerTest, ALargeFileComesWhole) {
  AddLarge();
  Start();
  EXPECT_EQ(BodyOf(Get(Path("large"))).size(), kLargeBytes);
}

TEST_F(HttpServerTest, WhoDoesNotReadIsDropped) {
  HttpLimits limits;
  limits.send_ms = 0;
  AddLarge();
  Start(limits);
  const Client lazy(server_->port());
  ASSERT_TRUE(lazy.Send("GET " + Path("large") + " HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  // Clients are answered in the order in which they have come.
  EXPECT_EQ(BodyOf(Get(Path(""))), "first page");
  EXPECT_LT(lazy.ReadAll().size(), kLargeBytes);
}

// Clients that know the token, and ask for more than they read.
TEST_F(HttpServerTest, ManyThatDoNotReadKeepNobodyOut) {
  HttpLimits limits;
  limits.most_connections = 2;
  limits.stall_ms = 10;
  AddLarge();
  Start(limits);
  std::vector<std::unique_ptr<Client>> lazy;
  for (int i = 0; i < 6; ++i) {
    lazy.push_back(std::make_unique<Client>(server_->port()));
    ASSERT_TRUE(lazy.back()->Send("GET " + Path("large") + " HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  }
  EXPECT_EQ(BodyOf(Get(Path(""))), "first page");
}

TEST_F(HttpServerTest, AFileThatWasCutEndsTheAnswer) {
  const auto fd = std::make_shared<const UniqueFd>(memfd_create("cut", MFD_CLOEXEC));
  ASSERT_TRUE(WriteFully(fd->get(), "short"));
  ServedFile cut("text/plain");
  cut.AddStretch(fd, 0, 100);
  files_.Add("cut", std::move(cut));
  Start();
  EXPECT_EQ(BodyOf(Get(Path("cut"))), "short");
  EXPECT_EQ(BodyOf(Get(Path(""))), "first page");
}

TEST(HttpServerPortTest, AUsedPortIsRefusedWithASentence) {
  const absl::StatusOr<HttpServer> first = HttpServer::Listen(0);
  ASSERT_TRUE(first.ok());
  const absl::StatusOr<HttpServer> second = HttpServer::Listen(first->port());
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("leave out --port"));
}

TEST(FixedTimeTest, ComparesWholeTexts) {
  EXPECT_TRUE(IsEqualInFixedTime("", ""));
  EXPECT_TRUE(IsEqualInFixedTime("abc", "abc"));
  EXPECT_FALSE(IsEqualInFixedTime("abc", "abd"));
  EXPECT_FALSE(IsEqualInFixedTime("abc", "ab"));
  EXPECT_FALSE(IsEqualInFixedTime("abc", ""));
}

}  // namespace
}  // namespace proftrace
