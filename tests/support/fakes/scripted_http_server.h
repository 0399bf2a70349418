// A real HTTP/1.1 server on a free loopback port whose handler decides what goes over the wire,
// byte by byte where it wants.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <string_view>
#include <thread>

#include "lib/base/thread/sync.h"

namespace buttress {

struct ScriptedRequest {
  std::string method;
  std::string target;                          // path and query
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

// The handler's side of a connection.
class ScriptedConnection {
 public:
  explicit ScriptedConnection(int socket) : socket_(socket) {}

  void Reply(int status, std::string_view body);

  // A 200 whose body follows in chunks; False once the client has gone.
  bool BeginStream();
  bool SendChunk(std::string_view piece);
  void EndStream();

  // Bytes as they are.
  bool SendRaw(std::string_view bytes);

  // After the handler returns the connection is closed instead of reused.
  void Close() { open_ = false; }

  bool open() const { return open_; }

  // Whether the client has closed its side.
  bool ClientGone() const;

 private:
  const int socket_;
  bool open_ = true;
};

class ScriptedHttpServer {
 public:
  using Handler = std::function<void(const ScriptedRequest&, ScriptedConnection&)>;

  // The handler runs on a thread of each connection. Port 0 is a free one.
  explicit ScriptedHttpServer(Handler handler, int port = 0);

  ~ScriptedHttpServer();

  ScriptedHttpServer(const ScriptedHttpServer&) = delete;
  ScriptedHttpServer& operator=(const ScriptedHttpServer&) = delete;

  // Closes every connection and refuses others; handlers that wait must have been told to return.
  void Stop();

  // After Stop: the same port answers again.
  void Restart();

  // The connections that were accepted.
  int connections() const { return connections_; }

  // "http://127.0.0.1:port".
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

 private:
  void Listen();
  void Accept();
  void Serve(int socket);

  const Handler handler_;
  int reserved_ = -1;  // bound and never listening: keeps the port ours while there is no listener
  int listener_ = -1;
  int port_ = 0;
  std::atomic<int> connections_ = 0;
  std::thread accepting_;
  Mutex mutex_;
  bool stopped_ GUARDED_BY(mutex_) = false;
  std::list<int> sockets_ GUARDED_BY(mutex_);
  std::list<std::thread> serving_ GUARDED_BY(mutex_);
};

}  // namespace buttress
