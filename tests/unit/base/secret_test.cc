#include "lib/base/net/secret.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

TEST(SecretTest, AFileKeepsASecretForItsOwner) {
  const TempDir dir;
  const std::string path = dir.path() + "/w0.secret";
  const auto made = KeptSecret(path);
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  EXPECT_EQ(made->size(), 32U);
  EXPECT_EQ(*KeptSecret(path), *made);

  struct stat info {};

  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600U);
}

TEST(SecretTest, AFileThatWasCutIsMadeAnewAndAnOpenOneRefused) {
  const TempDir dir;
  const std::string path = dir.path() + "/w0.secret";
  ASSERT_TRUE(WriteSecretFile(path, "half").ok());
  EXPECT_EQ(KeptSecret(path)->size(), 32U);
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  EXPECT_EQ(KeptSecret(path).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace buttress
