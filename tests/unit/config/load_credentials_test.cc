#include "lib/config/load_credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/support/made_certificates.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const SecurityConfig& config) {
  const auto credentials = LoadCredentials(config);
  EXPECT_EQ(credentials.status().code(), StatusCode::kInvalidArgument);
  return credentials.status().message();
}

TEST(CredentialsTest, FilesOfTheScriptAreAcceptedAndReadableByTheOwnerOnly) {
  const MadeCertificates made("a,10.0.0.1 b");
  const auto a = LoadCredentials(made.Of("a")), b = LoadCredentials(made.Of("b"));
  ASSERT_TRUE(a.ok() && b.ok()) << a.status().ToString() << b.status().ToString();
  EXPECT_EQ(a->token, b->token);
  EXPECT_EQ(a->token.size(), 64U);
  EXPECT_NE(a->key, b->key);
  for (const char* secret : {"a.key", "b.key", "ca.key", "token"}) {
    struct stat info {};

    ASSERT_EQ(::stat(made.Path(secret).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777U, 0600U) << secret;
  }
  EXPECT_TRUE(LoadCredentials({})->empty());
}

TEST(CredentialsTest, FilesThatDoNotBelongTogetherAreNamed) {
  const MadeCertificates made("a b"), other("a");
  SecurityConfig config = made.Of("a");
  config.key = made.Path("b.key");
  EXPECT_THAT(ErrorOf(config), HasSubstr("b.key is not the key of "));
  config = made.Of("a");
  config.ca = other.Path("ca.pem");
  EXPECT_THAT(ErrorOf(config), HasSubstr("a.pem is not accepted by local.security.ca"));
  config = made.Of("a");
  config.certificate = made.Path("token");
  EXPECT_THAT(ErrorOf(config), HasSubstr("local.security.certificate: " + made.Path("token") +
                                         " holds no PEM certificate"));
  config.certificate = made.Path("none.pem");
  EXPECT_THAT(ErrorOf(config), HasSubstr("none.pem"));
}

TEST(CredentialsTest, ATokenThatIsShortOrHasSpacesIsRefused) {
  const MadeCertificates made;
  SecurityConfig config = made.Of();
  config.token_file = made.Path("mine");
  for (const char* token : {"", "short\n", "two words of a token", "sixteen bytes \xc3\xa4 tok"}) {
    ASSERT_TRUE(WriteFileAtomic(config.token_file, token).ok());
    EXPECT_THAT(ErrorOf(config), HasSubstr("16 to 4096 printable ASCII characters")) << token;
  }
  ASSERT_TRUE(WriteFileAtomic(config.token_file, " 0123456789abcdef\n").ok());
  EXPECT_EQ(LoadCredentials(config)->token, "0123456789abcdef");
}

TEST(CredentialsTest, OnlyTheWholeTokenIsAdmitted) {
  Credentials credentials;
  EXPECT_FALSE(credentials.Admits("Bearer ")) << "no token is no way in";
  credentials.token = "0123456789abcdef";
  EXPECT_TRUE(credentials.Admits("Bearer 0123456789abcdef"));
  for (const char* wrong : {"", "0123456789abcdef", "Bearer 0123456789abcde",
                            "Bearer 0123456789abcdef0", "bearer 0123456789abcdef"}) {
    EXPECT_FALSE(credentials.Admits(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace buttress
