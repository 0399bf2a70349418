#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "lib/base/os/file.h"
#include "lib/checks/model_checks.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

TEST(HubNameTest, AdviceNamesTheSnapshotOfTheCacheOrTheDownload) {
  const TempDir home;
  ::unsetenv("HF_HUB_CACHE");
  ::setenv("HF_HOME", home.path().c_str(), 1);
  EXPECT_THAT(HubAdvice("Qwen/Tiny"), HasSubstr("hf download Qwen/Tiny --local-dir Tiny"));
  const std::string model = home.path() + "/hub/models--Qwen--Tiny/snapshots";
  ASSERT_TRUE(MakeFolders(model + "/broken").ok());
  ASSERT_TRUE(MakeFolders(model + "/whole").ok());
  ASSERT_TRUE(WriteFileAtomic(model + "/whole/config.json", "{}").ok());
  EXPECT_THAT(HubAdvice("Qwen/Tiny"), EndsWith(model + "/whole"));
  ::unsetenv("HF_HOME");
}

}  // namespace
}  // namespace buttress
