#include "coordinator/page/page_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <deque>

#include "lib/base/os/file.h"
#include "tests/support/runs/web_client.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kSecretData[] = "what the policy wrote";

class PageServerTest : public ::testing::Test {
 protected:
  PageServerTest() {
    auto server =
        PageServer::Start("127.0.0.1:0", {}, link_path_, [](double after, std::int64_t generation) {
          return std::string(kSecretData) + " " + std::to_string(after) + " " +
                 std::to_string(generation);
        });
    EXPECT_TRUE(server.ok()) << server.status().ToString();
    if (server.ok()) server_ = *std::move(server);
  }

  std::string Link() const {
    const auto link = ReadFile(link_path_);
    return link.ok() ? link->substr(0, link->find('\n')) : "";
  }

  // "/?key=..." of the present link.
  std::string Entrance() const { return Link().substr(Link().find("/?")); }

  int port() const {
    const std::string rest = Link().substr(std::string("http://127.0.0.1:").size());
    return std::stoi(rest);
  }

  // The cookie for a new visit.
  std::string Enter() const {
    const std::string reply = WebGet(port(), Entrance());
    const std::string name = "Set-Cookie: ";
    const std::size_t begin = reply.find(name);
    EXPECT_NE(begin, std::string::npos) << reply;
    if (begin == std::string::npos) return "";
    const std::size_t from = begin + name.size();
    return reply.substr(from, reply.find(';', from) - from);
  }

  TempDir dir_;
  const std::string link_path_ = JoinPath(dir_.path(), "coordinator.page");
  std::unique_ptr<PageServer> server_;
};

TEST_F(PageServerTest, WithoutTheKeyNothingIsShown) {
  for (const char* path : {"/", "/data", "/page.js", "/page.css", "/?key=", "/?key=00"}) {
    const std::string reply = WebGet(port(), path);
    EXPECT_THAT(reply, StartsWith("HTTP/1.1 401 ")) << path;
    EXPECT_THAT(reply, AllOf(Not(HasSubstr(kSecretData)), Not(HasSubstr("Set-Cookie")))) << path;
  }
  EXPECT_THAT(WebGet(port(), "/data", "buttress_page_" + std::to_string(port()) + "=00"),
              StartsWith("HTTP/1.1 401 "));
}

TEST_F(PageServerTest, ALinkOpensThePageOnceAndTheFileHoldsTheNextOne) {
  struct stat info {};

  ASSERT_EQ(::stat(link_path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  const std::string first = Entrance();
  const std::string reply = WebGet(port(), first);
  EXPECT_THAT(reply, StartsWith("HTTP/1.1 303 "));
  EXPECT_THAT(reply, AllOf(HasSubstr("; HttpOnly; SameSite=Strict"), HasSubstr("Location: /\r\n")));
  EXPECT_NE(Entrance(), first);
  EXPECT_THAT(WebGet(port(), first), StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(WebGet(port(), Entrance()), StartsWith("HTTP/1.1 303 "));
  ASSERT_EQ(::stat(link_path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
}

TEST_F(PageServerTest, TheCookieOpensEveryPartAndNoPartLoadsFromElsewhere) {
  const std::string cookie = Enter();
  const std::string page = WebGet(port(), "/", cookie);
  EXPECT_THAT(page, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(page, HasSubstr("Content-Security-Policy: default-src 'none'; script-src 'self'"));
  EXPECT_THAT(WebGet(port(), "/page.js", cookie), HasSubstr("'use strict'"));
  EXPECT_THAT(WebGet(port(), "/page.css", cookie), HasSubstr("prefers-color-scheme"));
  EXPECT_THAT(WebGet(port(), "/data?after=12&generation=3", cookie),
              HasSubstr(std::string(kSecretData) + " 12.000000 3"));
  EXPECT_THAT(WebGet(port(), "/data?after=nan", cookie), HasSubstr("-1.000000 0"));
  EXPECT_THAT(WebGet(port(), "/other", cookie), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(WebGet(port(), Entrance(), cookie), StartsWith("HTTP/1.1 303 "));
}

TEST_F(PageServerTest, ConnectionsThatDripDelayNobody) {
  const std::string cookie = Enter();
  std::deque<WebConnection> drips;
  for (int i = 0; i < 20; ++i) drips.emplace_back(port()).Send("GET / HT");
  for (WebConnection& drip : drips) drip.Send("T");
  EXPECT_THAT(WebGet(port(), "/data", cookie), StartsWith("HTTP/1.1 200 "));
}

TEST_F(PageServerTest, TheLinkGoesWithTheServer) {
  server_.reset();
  EXPECT_EQ(ReadFile(link_path_).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace buttress
