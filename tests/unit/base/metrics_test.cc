#include "lib/base/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <deque>
#include <string>

namespace buttress {
namespace {

using ::testing::HasSubstr;

TEST(MetricsTest, SeriesWithTheSameNameAndLabelsAreOne) {
  Metrics metrics("coordinator");
  metrics.Counter("buttress_test_total", "Tests.", {{"kind", "a"}}).Increment();
  metrics.Counter("buttress_test_total", "Tests.", {{"kind", "a"}}).Increment(2);
  metrics.Counter("buttress_test_total", "Tests.", {{"kind", "b"}}).Increment();
  const std::string text = metrics.Expose();
  EXPECT_THAT(text, HasSubstr("buttress_test_total{kind=\"a\"} 3"));
  EXPECT_THAT(text, HasSubstr("buttress_test_total{kind=\"b\"} 1"));
  EXPECT_THAT(text, HasSubstr("process_resident_memory_bytes "));
  EXPECT_THAT(text, HasSubstr("buttress_build_info{component=\"coordinator\""));
}

TEST(MetricsTest, AFreePortIsPickedAndATakenOneIsAStatus) {
  Metrics first("coordinator");
  ASSERT_TRUE(first.Serve("127.0.0.1:0").ok());
  EXPECT_GT(first.port(), 0);
  Metrics second("worker");
  const Status status = second.Serve("127.0.0.1:" + std::to_string(first.port()));
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
}

// A TCP connection from one loopback address to a port of another.
class Connection {
 public:
  // `from` is the last byte of 127.0.0.0/8.
  Connection(std::uint32_t from, int port) : descriptor_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in own = AddressOf(from, 0), peer = AddressOf(1, port);
    const timeval patience = {5, 0};
    ::setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    EXPECT_EQ(::bind(descriptor_, reinterpret_cast<sockaddr*>(&own), sizeof own), 0);
    EXPECT_EQ(::connect(descriptor_, reinterpret_cast<sockaddr*>(&peer), sizeof peer), 0);
  }

  ~Connection() { ::close(descriptor_); }

  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // A peer that has gone raises no signal.
  void Send(const std::string& text) {
    ::send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL);
  }

  // What has arrived within five seconds, in one piece; empty if the peer has closed.
  std::string Receive() {
    char buffer[4096];
    const ssize_t count = ::recv(descriptor_, buffer, sizeof buffer, 0);
    return {buffer, static_cast<std::size_t>(count > 0 ? count : 0)};
  }

 private:
  static sockaddr_in AddressOf(std::uint32_t last_byte, int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl((127U << 24) + last_byte);
    return address;
  }

  const int descriptor_;
};

TEST(MetricsTest, AnAddressThatHoldsManyConnectionsKeepsNobodyElseOut) {
  Metrics metrics("coordinator");
  ASSERT_TRUE(metrics.Serve("127.0.0.1:0").ok());
  std::deque<Connection> slow;
  for (int i = 0; i < 200; ++i) slow.emplace_back(1, metrics.port()).Send("G");
  Connection other(2, metrics.port());
  other.Send("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(other.Receive(), HasSubstr("200 OK"));
}

}  // namespace
}  // namespace buttress
