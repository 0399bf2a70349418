#include "tests/support/fakes/scripted_http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "lib/base/report/check.h"

namespace buttress {
namespace {

constexpr std::size_t kPiece = 65536;

std::string LowerCase(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

ScriptedRequest ParseHead(std::string_view head) {
  ScriptedRequest request;
  std::size_t end = head.find("\r\n");
  const std::string_view first = head.substr(0, end);
  const std::size_t space = first.find(' ');
  request.method = first.substr(0, space);
  request.target = first.substr(space + 1, first.rfind(' ') - space - 1);
  while (end != std::string_view::npos && end + 2 < head.size()) {
    head.remove_prefix(end + 2);
    end = head.find("\r\n");
    const std::string_view line = head.substr(0, end);
    const std::size_t colon = line.find(": ");
    if (colon != std::string_view::npos)
      request.headers[LowerCase(std::string(line.substr(0, colon)))] = line.substr(colon + 2);
  }
  return request;
}

// The next request of a connection; nothing at its end. `buffer` keeps what has been read beyond
// it.
std::optional<ScriptedRequest> ReadRequest(int socket, std::string& buffer) {
  const auto more = [&] {
    char piece[kPiece];
    const ssize_t got = ::recv(socket, piece, sizeof(piece), 0);
    if (got > 0) buffer.append(piece, static_cast<std::size_t>(got));
    return got > 0;
  };
  std::size_t head;
  while ((head = buffer.find("\r\n\r\n")) == std::string::npos) {
    if (!more()) return std::nullopt;
  }
  ScriptedRequest request = ParseHead(std::string_view(buffer).substr(0, head));
  const auto length = request.headers.find("content-length");
  const std::size_t size =
      length == request.headers.end() ? 0 : std::strtoull(length->second.c_str(), nullptr, 10);
  while (buffer.size() < head + 4 + size) {
    if (!more()) return std::nullopt;
  }
  request.body = buffer.substr(head + 4, size);
  buffer.erase(0, head + 4 + size);
  return request;
}

// A socket bound to a loopback port, which it shares with others of this kind; 0: a free one.
int SocketOn(int port) {
  const int made = ::socket(AF_INET, SOCK_STREAM, 0);
  const int shared = 1;
  BUTTRESS_CHECK(::setsockopt(made, SOL_SOCKET, SO_REUSEPORT, &shared, sizeof(shared)) == 0,
                 "setsockopt");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  BUTTRESS_CHECK(::bind(made, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0,
                 "bind");
  return made;
}

int PortOf(int socket) {
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  BUTTRESS_CHECK(::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0,
                 "getsockname");
  return ntohs(address.sin_port);
}

}  // namespace

bool ScriptedConnection::SendRaw(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) {
      open_ = false;
      return false;
    }
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

void ScriptedConnection::Reply(int status, std::string_view body) {
  SendRaw("HTTP/1.1 " + std::to_string(status) +
          " X\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
          "\r\n\r\n" + std::string(body));
}

bool ScriptedConnection::BeginStream() {
  return SendRaw(
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
}

bool ScriptedConnection::SendChunk(std::string_view piece) {
  char size[32];
  std::snprintf(size, sizeof(size), "%zx\r\n", piece.size());
  return SendRaw(size + std::string(piece) + "\r\n");
}

void ScriptedConnection::EndStream() { SendRaw("0\r\n\r\n"); }

bool ScriptedConnection::ClientGone() const {
  char byte;
  const ssize_t got = ::recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN);
}

ScriptedHttpServer::ScriptedHttpServer(Handler handler, int port) : handler_(std::move(handler)) {
  reserved_ = SocketOn(port);
  port_ = PortOf(reserved_);
  Listen();
}

ScriptedHttpServer::~ScriptedHttpServer() {
  Stop();
  ::close(reserved_);
}

void ScriptedHttpServer::Listen() {
  listener_ = SocketOn(port_);
  BUTTRESS_CHECK(::listen(listener_, 64) == 0, "listen");
  accepting_ = std::thread([this] { Accept(); });
}

void ScriptedHttpServer::Restart() {
  {
    MutexLock lock(mutex_);
    BUTTRESS_CHECK(stopped_, "Restart without Stop");
    stopped_ = false;
  }
  Listen();
}

void ScriptedHttpServer::Stop() {
  {
    MutexLock lock(mutex_);
    if (stopped_) return;
    stopped_ = true;
    for (const int socket : sockets_) ::shutdown(socket, SHUT_RDWR);
  }
  ::shutdown(listener_, SHUT_RDWR);
  accepting_.join();
  ::close(listener_);
  std::list<std::thread> serving;
  {
    MutexLock lock(mutex_);
    serving.swap(serving_);
  }
  for (std::thread& thread : serving) thread.join();
}

void ScriptedHttpServer::Accept() {
  while (true) {
    const int socket = ::accept(listener_, nullptr, nullptr);
    if (socket < 0) return;
    const int at_once = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof(at_once));
    ++connections_;
    MutexLock lock(mutex_);
    if (stopped_) {
      ::close(socket);
      return;
    }
    sockets_.push_back(socket);
    serving_.emplace_back([this, socket] { Serve(socket); });
  }
}

void ScriptedHttpServer::Serve(int socket) {
  std::string buffer;
  ScriptedConnection connection(socket);
  while (connection.open()) {
    const auto request = ReadRequest(socket, buffer);
    if (!request.has_value()) break;
    handler_(*request, connection);
  }
  MutexLock lock(mutex_);
  sockets_.remove(socket);
  ::shutdown(socket, SHUT_RDWR);
  ::close(socket);
}

}  // namespace buttress
