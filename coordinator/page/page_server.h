// Serves the page of a run to browsers: the files of this folder, and the data that they poll.
//
// Whoever can read the file with the link may look. The link holds a key that counts once: the
// browser that brings it gets a cookie, and the file a new key. So a link in a log, a history or a
// chat opens nothing later.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "lib/base/net/credentials.h"
#include "lib/base/report/status.h"
#include "lib/base/thread/sync.h"
#include "lib/base/web/web_port.h"

namespace buttress {

class PageServer {
 public:
  // Returns the data of the page: points after a step, of a generation (page_data.h).
  using Data = std::function<std::string(double after, std::int64_t generation)>;

  // Listens on `address` as WebPort does, with HTTPS if there are credentials, and writes the link
  // to `link_path`, which only the owner can read. `data` runs on the thread of the port.
  static Result<std::unique_ptr<PageServer>> Start(const std::string& address,
                                                   Credentials credentials, std::string link_path,
                                                   Data data);

  // Removes the file with the link.
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

 private:
  PageServer(Credentials credentials, std::string link_path, Data data)
      : credentials_(std::move(credentials)),
        link_path_(std::move(link_path)),
        data_(std::move(data)) {}

  Status Listen(const std::string& address);
  Status WriteNewLink() REQUIRES(mutex_);
  WebReply Answer(const WebRequest& request);
  WebReply AnswerVisitor(const WebRequest& request) REQUIRES(mutex_);
  bool IsKnown(const WebRequest& request) const REQUIRES(mutex_);

  const Credentials credentials_;
  const std::string link_path_;
  const Data data_;
  mutable Mutex mutex_;
  std::string origin_ GUARDED_BY(mutex_);  // "http://127.0.0.1:41234"
  // Name of the cookie, which the port is part of: browsers mix the ports of a host.
  std::string cookie_ GUARDED_BY(mutex_);
  std::string key_sha256_ GUARDED_BY(mutex_);
  std::deque<std::string> sessions_ GUARDED_BY(mutex_);  // SHA-256 of cookies, oldest first
  std::unique_ptr<WebPort> port_;
};

}  // namespace buttress
