#include "coordinator/page/page_server.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "lib/base/net/address.h"
#include "lib/base/net/secret.h"
#include "lib/base/report/log.h"
#include "lib/base/text/digest.h"
#include "lib/page/assets.h"

namespace buttress {
namespace {

constexpr std::size_t kSessions = 64;
constexpr unsigned kSeeOther = 303, kUnauthorized = 401, kNotFoundCode = 404;
constexpr char kHtml[] = "text/html; charset=utf-8";
constexpr char kText[] = "text/plain; charset=utf-8";

// Nothing is loaded from elsewhere, no text becomes a script, and no other site shows or reads it.
WebReply Page(unsigned code, std::string type, std::string body) {
  WebReply reply = {code, std::move(type), std::move(body)};
  reply.headers = {{"Content-Security-Policy",
                    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
                    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
                   {"X-Content-Type-Options", "nosniff"},
                   {"Referrer-Policy", "no-referrer"},
                   {"Cross-Origin-Resource-Policy", "same-origin"},
                   {"Cache-Control", "no-store"}};
  return reply;
}

WebReply ToRoot() {
  WebReply reply = Page(kSeeOther, kText, "");
  reply.headers.emplace_back("Location", "/");
  return reply;
}

}  // namespace

Result<std::unique_ptr<PageServer>> PageServer::Start(const std::string& address,
                                                      Credentials credentials,
                                                      std::string link_path, Data data) {
  std::unique_ptr<PageServer> server(
      new PageServer(std::move(credentials), std::move(link_path), std::move(data)));
  BUTTRESS_RETURN_IF_ERROR(server->Listen(address));
  return server;
}

PageServer::~PageServer() {
  port_.reset();
  std::remove(link_path_.c_str());
}

Status PageServer::Listen(const std::string& address) {
  MutexLock lock(mutex_);  // a request that arrives at once waits for the key
  BUTTRESS_ASSIGN_OR_RETURN(
      port_, WebPort::Start(address, credentials_, "the page",
                            [this](const WebRequest& request) { return Answer(request); }));
  cookie_ = "buttress_page_" + std::to_string(port_->port());
  origin_ = (credentials_.empty() ? "http://" : "https://") + BoundAddress(address, port_->port());
  return WriteNewLink();
}

Status PageServer::WriteNewLink() {
  const std::string key = ToHex(MakeSecret());
  key_sha256_ = Sha256Of(key);
  return WriteSecretFile(link_path_, origin_ + "/?key=" + key + "\n");
}

WebReply PageServer::Answer(const WebRequest& request) {
  MutexLock lock(mutex_);
  if (!IsKnown(request)) return AnswerVisitor(request);
  if (request.path() == "/data") {
    const std::string text = request.Argument("after");
    const double after = text.empty() ? -1 : std::strtod(text.c_str(), nullptr);
    const std::string generation = request.Argument("generation");
    return Page(
        200, "application/json",
        data_(std::isfinite(after) ? after : -1, std::strtoll(generation.c_str(), nullptr, 10)));
  }
  if (request.path() == "/page.js")
    return Page(200, "text/javascript; charset=utf-8", std::string(kPageJs));
  if (request.path() == "/page.css")
    return Page(200, "text/css; charset=utf-8", std::string(kPageCss));
  if (request.path() != "/") return Page(kNotFoundCode, kText, "not found; the page is at /\n");
  return request.Argument("key").empty() ? Page(200, kHtml, std::string(kIndexHtml)) : ToRoot();
}

// Answers a browser without a cookie: a key that has not been used makes it known.
WebReply PageServer::AnswerVisitor(const WebRequest& request) {
  const std::string key = request.Argument("key");
  if (request.path() != "/" || key.empty() || !IsSecretOf(key, key_sha256_)) {
    return Page(kUnauthorized, kText,
                "This link was used before, or is of an earlier start. `buttress status RUN` "
                "prints a new one.\n");
  }
  if (const Status written = WriteNewLink(); !written.ok())
    Log(kWarn, "the next link of the page could not be written", {{"error", written.message()}});
  const std::string secret = ToHex(MakeSecret());
  sessions_.push_back(Sha256Of(secret));
  if (sessions_.size() > kSessions) sessions_.pop_front();
  WebReply reply = ToRoot();
  reply.headers.emplace_back("Set-Cookie", cookie_ + "=" + secret +
                                               "; Path=/; HttpOnly; SameSite=Strict" +
                                               (credentials_.empty() ? "" : "; Secure"));
  return reply;
}

bool PageServer::IsKnown(const WebRequest& request) const {
  const std::string cookie = request.Cookie(cookie_.c_str());
  return !cookie.empty() && std::ranges::any_of(sessions_, [&cookie](const std::string& sha256) {
    return IsSecretOf(cookie, sha256);
  });
}

}  // namespace buttress
