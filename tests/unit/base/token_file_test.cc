#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "lib/base/net/credentials.h"
#include "lib/base/os/file.h"
#include "tests/support/secret_file.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kFirst[] = "the-first-token-of-a-role";
constexpr char kSecond[] = "the-second-token-of-a-role";
constexpr char kThird[] = "the-third-token-of-a-role";

class SetClock : public Clock {
 public:
  std::int64_t MonotonicMs() const override { return now_ms; }

  std::int64_t UnixMs() const override { return now_ms; }

  std::int64_t now_ms = 0;
};

class TokenFileTest : public ::testing::Test {
 protected:
  void Write(const std::string& text) { ASSERT_TRUE(WriteSecret(path_, text).ok()); }

  // The tokens that are valid after so much time.
  std::vector<std::string> ValidAfter(TokenFile& file, std::int64_t ms) {
    clock_.now_ms += ms;
    return file.Valid();
  }

  TempDir folder_;
  const std::string path_ = JoinPath(folder_.path(), "worker.token");
  SetClock clock_;
};

TEST_F(TokenFileTest, ATokenThatIsMissingShortOrHasSpacesIsRefused) {
  EXPECT_THAT(TokenFile::Open(path_).status().message(), HasSubstr("worker.token"));
  for (const char* token : {"", "short\n", "two words of a token", "sixteen bytes \xc3\xa4 tok"}) {
    Write(token);
    const auto file = TokenFile::Open(path_);
    EXPECT_EQ(file.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(file.status().message(), HasSubstr("16 to 4096 printable ASCII characters"));
  }
  Write(" 0123456789abcdef\n");
  EXPECT_THAT((*TokenFile::Open(path_))->Valid(), ElementsAre("0123456789abcdef"));
}

TEST_F(TokenFileTest, ATokenThatOtherUsersMayReadIsRefused) {
  using std::filesystem::perms;
  Write("0123456789abcdef");
  for (const perms more : {perms::others_read, perms::others_write, perms::group_write}) {
    std::filesystem::permissions(path_, perms::owner_read | more);
    const auto file = TokenFile::Open(path_);
    EXPECT_EQ(file.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(file.status().message(), HasSubstr("chmod 600 " + path_));
  }
  std::filesystem::permissions(path_, perms::owner_read | perms::group_read);
  EXPECT_TRUE(TokenFile::Open(path_).ok());
}

TEST_F(TokenFileTest, OnlyTheWholeTokenIsAdmitted) {
  Write("0123456789abcdef");
  const auto file = *TokenFile::Open(path_);
  EXPECT_TRUE(file->Admits("Bearer 0123456789abcdef"));
  for (const char* wrong : {"", "0123456789abcdef", "Bearer 0123456789abcde",
                            "Bearer 0123456789abcdef0", "bearer 0123456789abcdef"}) {
    EXPECT_FALSE(file->Admits(wrong)) << wrong;
  }
}

TEST_F(TokenFileTest, AfterAChangeBothTokensAreValidForABoundedTime) {
  Write(kFirst);
  const auto file = *TokenFile::Open(path_, clock_);
  Write(kSecond);
  EXPECT_THAT(ValidAfter(*file, TokenFile::kCheckMs - 1), ElementsAre(kFirst));
  EXPECT_THAT(ValidAfter(*file, 1), ElementsAre(kSecond, kFirst));
  EXPECT_TRUE(file->Admits(std::string("Bearer ") + kFirst));
  EXPECT_THAT(ValidAfter(*file, TokenFile::kOverlapMs - 1), ElementsAre(kSecond, kFirst));
  EXPECT_THAT(ValidAfter(*file, 1), ElementsAre(kSecond));
  EXPECT_FALSE(file->Admits(std::string("Bearer ") + kFirst));
}

TEST_F(TokenFileTest, ASecondChangeEndsTheFirstTokenAtOnce) {
  Write(kFirst);
  const auto file = *TokenFile::Open(path_, clock_);
  Write(kSecond);
  ValidAfter(*file, TokenFile::kCheckMs);
  Write(kThird);
  EXPECT_THAT(ValidAfter(*file, TokenFile::kCheckMs), ElementsAre(kThird, kSecond));
}

TEST_F(TokenFileTest, AFileThatIsDamagedOrGoneChangesNothing) {
  Write(kFirst);
  const auto file = *TokenFile::Open(path_, clock_);
  Write("half");
  EXPECT_THAT(ValidAfter(*file, TokenFile::kCheckMs), ElementsAre(kFirst));
  std::filesystem::remove(path_);
  EXPECT_THAT(ValidAfter(*file, TokenFile::kCheckMs), ElementsAre(kFirst));
  Write(kSecond);
  EXPECT_THAT(ValidAfter(*file, TokenFile::kCheckMs), ElementsAre(kSecond, kFirst));
}

}  // namespace
}  // namespace buttress
