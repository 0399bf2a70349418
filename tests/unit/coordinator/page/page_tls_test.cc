// The page over HTTPS, fetched by curl: a browser has no certificate of its own, and checks that of
// the coordinator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/process.h"
#include "coordinator/page/page_server.h"
#include "tests/support/runs/made_certificates.h"
#include "tests/support/runs/web_client.h"

namespace buttress {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int kUntrusted = 60;  // of curl: the certificate is not one of a known authority
constexpr char kRows[] = "rows of the policy";

class PageTlsTest : public ::testing::Test {
 protected:
  PageTlsTest() {
    auto server = PageServer::Start("127.0.0.1:0", certificates_.Load(Program::kCoordinator),
                                    link_path_, [](double, std::int64_t) { return kRows; });
    EXPECT_TRUE(server.ok()) << server.status().ToString();
    if (server.ok()) server_ = *std::move(server);
  }

  std::string Link() const {
    const auto link = ReadFile(link_path_);
    return link.ok() ? link->substr(0, link->find('\n')) : "";
  }

  // "https://127.0.0.1:41234"
  std::string Origin() const { return Link().substr(0, Link().find("/?")); }

  // What curl prints, headers included; its exit code must be `expected`.
  std::string Curl(std::vector<std::string> more, int expected = 0) const {
    const std::string log = JoinPath(dir_.path(), "log");
    std::filesystem::remove(log);
    std::vector<std::string> argv = {"curl", "-sS", "-i", "--noproxy", "*", "--max-time", "20"};
    argv.insert(argv.end(), more.begin(), more.end());
    auto curl = Process::Start(argv, log);
    EXPECT_TRUE(curl.ok()) << curl.status().ToString();
    EXPECT_TRUE(WaitUntil(30000, [&] { return !curl->Running(); }));
    const std::string printed = *ReadFile(log);
    EXPECT_EQ(curl->exit_code(), expected) << printed;
    return printed;
  }

  // The same with the authority of the run.
  std::string Get(const std::string& url, std::vector<std::string> more = {}) const {
    more.insert(more.end(), {"--cacert", certificates_.Path("ca.pem"), url});
    return Curl(more);
  }

  const MadeCertificates certificates_;
  TempDir dir_;
  const std::string link_path_ = JoinPath(dir_.path(), "coordinator.page");
  std::unique_ptr<PageServer> server_;
};

TEST_F(PageTlsTest, TheRightKeyGivesASecureCookieAndThatTheData) {
  ASSERT_THAT(Link(), StartsWith("https://127.0.0.1:"));
  const std::string origin = Origin(), link = Link(), jar = JoinPath(dir_.path(), "jar");
  EXPECT_THAT(Get(link, {"-c", jar}),
              AllOf(HasSubstr(" 303 "), HasSubstr("; HttpOnly; SameSite=Strict; Secure\r\n")));
  EXPECT_THAT(Get(origin + "/data", {"-b", jar}), AllOf(HasSubstr(" 200 "), HasSubstr(kRows)));
  EXPECT_THAT(Get(origin + "/", {"-b", jar}), HasSubstr("<!doctype html>"));
  EXPECT_THAT(Get(link), AllOf(HasSubstr(" 401 "), Not(HasSubstr("Set-Cookie"))))
      << "the key counts once";
}

TEST_F(PageTlsTest, AWrongKeyAndAWrongCookieShowNothing) {
  const std::string origin = Origin();
  const std::string name = "buttress_page_" + origin.substr(origin.rfind(':') + 1);
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{origin + "/data"},
        {origin + "/data", "-H", "Cookie: " + name + "=" + std::string(64, '0')},
        {origin + "/?key=" + std::string(64, '0')},
        {origin + "/?key="}}) {
    const std::vector<std::string> more(wrong.begin() + 1, wrong.end());
    EXPECT_THAT(Get(wrong.front(), more),
                AllOf(HasSubstr(" 401 "), Not(HasSubstr(kRows)), Not(HasSubstr("Set-Cookie"))))
        << wrong.front();
  }
}

TEST_F(PageTlsTest, AnotherAuthorityIsNotTrustedAndPlainHttpIsNotAnswered) {
  const MadeCertificates others;
  EXPECT_THAT(Curl({"--cacert", others.Path("ca.pem"), Link()}, kUntrusted),
              Not(HasSubstr("Set-Cookie")));
  const std::string link = Link();
  const int port = std::stoi(link.substr(link.find(':', 8) + 1));
  EXPECT_THAT(WebGet(port, link.substr(link.find("/?"))), Not(HasSubstr("Set-Cookie")));
  EXPECT_EQ(Link(), link) << "the key was not used up";
}

}  // namespace
}  // namespace buttress
