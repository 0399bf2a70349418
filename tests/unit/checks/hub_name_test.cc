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

TEST(AdapterCheckTest, AFolderThatIsNotWholeIsNamed) {
  const TempDir dir;
  const auto found = [](const std::string& adapter) {
    RunSettings run;
    run.model.path = "/models/tiny";
    run.lora.adapter = adapter;
    Findings findings;
    CheckAdapter(run, findings);
    return findings.list().empty() ? "" : findings.list().back().text;
  };
  EXPECT_EQ(found(""), "");
  EXPECT_EQ(found(dir.path()), dir.path() +
                                   " has no adapter_config.json; name a folder of peft, such as "
                                   "<out>/model of a run with run.lora");
  ASSERT_TRUE(WriteFileAtomic(dir.path() + "/adapter_config.json", "{}").ok());
  EXPECT_THAT(found(dir.path()), EndsWith("copy the file again"));
  const std::string weights = dir.path() + "/adapter_model.safetensors";
  ASSERT_TRUE(WriteFileAtomic(weights, "cut").ok());
  EXPECT_THAT(found(dir.path()), EndsWith("copy the file again"));
  ASSERT_TRUE(WriteFileAtomic(weights, std::string("\x02\0\0\0\0\0\0\0{}", 10)).ok());
  const auto name = [&](const std::string& base) {
    const std::string text = "{\"base_model_name_or_path\": \"" + base + "\"}";
    ASSERT_TRUE(WriteFileAtomic(dir.path() + "/adapter_config.json", text).ok());
  };
  name("hub/tiny");
  EXPECT_EQ(found(dir.path()), "0 tensors");
  name("hub/other");
  EXPECT_THAT(found(dir.path()), HasSubstr("names \"hub/other\" as the model that it was trained"));
}

}  // namespace
}  // namespace buttress
