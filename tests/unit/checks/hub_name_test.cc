#include "lib/checks/hub_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "lib/base/file.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

TEST(HubNameTest, ANameIsTwoWordsWithASlash) {
  for (const char* name : {"Qwen/Qwen2.5-0.5B", "google/gemma_2"}) EXPECT_EQ(HubNameOf(name), name);
  for (const char* path :
       {"model", "/models/qwen", "a/b/c", "models/", "./model", "../model", "my models/qwen", ""}) {
    EXPECT_EQ(HubNameOf(path), "") << path;
  }
}

TEST(HubNameTest, ANameThatBecameAbsoluteIsFound) {
  const TempDir dir;
  EXPECT_EQ(HubNameOf(dir.path() + "/Qwen/Tiny"), "Qwen/Tiny");
  EXPECT_EQ(HubNameOf(dir.path() + "/runs/Qwen/Tiny"), "");
  ASSERT_TRUE(MakeFolders(dir.path() + "/models").ok());
  EXPECT_EQ(HubNameOf(dir.path() + "/models/Tiny"), "");
}

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
