// An HTTP client of one request for tests, over a plain socket.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace buttress {

// A TCP connection to a port of this machine.
class WebConnection {
 public:
  explicit WebConnection(int port) : descriptor_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const timeval patience = {20, 0};
    ::setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    sockaddr_in peer{};
    peer.sin_family = AF_INET;
    peer.sin_port = htons(static_cast<std::uint16_t>(port));
    peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(descriptor_, reinterpret_cast<sockaddr*>(&peer), sizeof peer), 0);
  }

  ~WebConnection() { ::close(descriptor_); }

  WebConnection(const WebConnection&) = delete;
  WebConnection& operator=(const WebConnection&) = delete;

  void Send(const std::string& text) {
    ::send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL);
  }

  // Everything until the peer closes.
  std::string Receive() {
    std::string all;
    char bytes[4096];
    for (ssize_t n = 0; (n = ::recv(descriptor_, bytes, sizeof bytes, 0)) > 0;)
      all.append(bytes, static_cast<std::size_t>(n));
    return all;
  }

 private:
  const int descriptor_;
};

// Returns status line, headers and body.
inline std::string WebGet(int port, const std::string& path, const std::string& cookie = "") {
  WebConnection connection(port);
  connection.Send("GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n" +
                  (cookie.empty() ? "" : "Cookie: " + cookie + "\r\n") + "\r\n");
  return connection.Receive();
}

}  // namespace buttress
