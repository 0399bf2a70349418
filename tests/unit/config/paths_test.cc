#include "lib/config/paths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "lib/base/os/file.h"
#include "lib/config/load.h"
#include "lib/config/run_identity.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

constexpr char kRelative[] = R"(run:
  data:
    sources:
      a: {prompts: rows/a.jsonl, verifier: "math + 0.5 * python:rewards.py:right"}
      b: {prompts: /rows/b.jsonl}
    held_out: ../held_out.jsonl
  model: {path: models/start/}
  reward:
    verifier: "python:lib/rewards.py:right - 0.5 * python:/abs/rewards.py:short"
    code: {read_only: [venv, /opt/venv]}
    python: {interpreter: python3.11}
    http: {token_file: token}
local:
  out: runs/x
  worker: {weights_dir: ./weights, engine: vllm, vllm: {launch: {binary: env/bin/vllm}}}
  launch: {mpirun: bin/mpirun}
)";

class PathsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(JoinPath(dir_.path(), "configs"));
    yaml_ = JoinPath(dir_.path(), "configs/run.yaml");
    ASSERT_TRUE(WriteFileAtomic(yaml_, kRelative).ok());
  }

  RunConfig Load(const std::vector<std::string>& overrides = {}) {
    auto config = LoadRunConfig(yaml_, overrides);
    EXPECT_TRUE(config.ok()) << config.status().ToString();
    return config.ok() ? *config : RunConfig();
  }

  std::string In(const std::string& path) const { return JoinPath(dir_.path(), path); }

  const TempDir dir_;
  std::string yaml_;
};

TEST_F(PathsTest, RelativePathsOfAFileBeginAtItsFolder) {
  const RunConfig config = Load();
  EXPECT_EQ(config.run.data.sources.at("a").prompts, In("configs/rows/a.jsonl"));
  EXPECT_EQ(config.run.data.sources.at("a").verifier,
            "math + 0.5 * python:" + In("configs/rewards.py") + ":right");
  EXPECT_EQ(config.run.reward.by_source.at("a"), config.run.data.sources.at("a").verifier);
  EXPECT_EQ(config.run.data.sources.at("b").prompts, "/rows/b.jsonl");
  EXPECT_EQ(config.run.data.held_out, In("held_out.jsonl"));
  EXPECT_EQ(config.run.model.path, In("configs/models/start"));
  EXPECT_EQ(config.run.reward.verifier, "python:" + In("configs/lib/rewards.py") +
                                            ":right - 0.5 * python:/abs/rewards.py:short");
  EXPECT_EQ(config.run.reward.code.read_only,
            (std::vector<std::string>{In("configs/venv"), "/opt/venv"}));
  EXPECT_EQ(config.run.reward.python.interpreter, "python3.11");
  EXPECT_EQ(config.run.reward.http.token_file, In("configs/token"));
  EXPECT_EQ(config.local.out, In("configs/runs/x"));
  EXPECT_EQ(config.local.worker.weights_dir, In("configs/weights"));
  EXPECT_EQ(config.local.worker.vllm.launch.binary, In("configs/env/bin/vllm"));
  EXPECT_EQ(config.local.launch.mpirun, In("configs/bin/mpirun"));
  EXPECT_EQ(config.local.security.ca, "");
}

TEST_F(PathsTest, AFileOfRewardsMayLieInAFolderWithSpaces) {
  const std::string folder = In("a - b + c");
  std::filesystem::create_directories(folder);
  yaml_ = JoinPath(folder, "run.yaml");
  ASSERT_TRUE(WriteFileAtomic(yaml_, kRelative).ok());
  const RunConfig config = Load();
  EXPECT_EQ(config.run.reward.verifier,
            "python:" + folder + "/lib/rewards.py:right - 0.5 * " + "python:/abs/rewards.py:short");
  EXPECT_EQ(WithFileNames(config.run.reward.verifier),
            "python:rewards.py:right - 0.5 * python:rewards.py:short");
  const auto again = ParseRunConfig(PrintRunConfig(config), "stored", {});
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(again->run.reward.verifier, config.run.reward.verifier);
}

TEST_F(PathsTest, RelativePathsOfTheCommandLineBeginAtTheCurrentFolder) {
  const std::string here = std::filesystem::current_path();
  const RunConfig config =
      Load({"run.data.sources.a.prompts=x.jsonl", "run.reward.by_source={z: \"python:r.py:f\"}",
            "local.out=out",
            "local.security={certificate: c.pem, key: k.pem, ca: certs/ca.pem, tokens: t}"});
  EXPECT_EQ(config.run.data.sources.at("a").prompts, here + "/x.jsonl");
  EXPECT_EQ(config.run.reward.by_source.at("z"), "python:" + here + "/r.py:f");
  EXPECT_EQ(config.local.out, here + "/out");
  EXPECT_EQ(config.local.security.ca, here + "/certs/ca.pem");
  EXPECT_EQ(config.run.data.held_out, In("held_out.jsonl"));
  // A default is no path of the file.
  ASSERT_TRUE(WriteFileAtomic(yaml_, "run: {data: {prompts: p}, model: {path: m}}").ok());
  EXPECT_EQ(Load().local.out, here + "/runs/run");
}

TEST_F(PathsTest, ANameOfTheHubStaysAsItIsWrittenWhereNoFolderIs) {
  ASSERT_TRUE(
      WriteFileAtomic(yaml_, "run: {data: {prompts: p}, model: {path: Qwen/Tiny-0.5B}}").ok());
  EXPECT_EQ(Load().run.model.path, "Qwen/Tiny-0.5B");
  EXPECT_EQ(Load({"run.model.path=google/gemma_2"}).run.model.path, "google/gemma_2");
  EXPECT_EQ(Load({"run.model.path=/models/tiny"}).run.model.path, "/models/tiny");
  std::filesystem::create_directories(In("configs/Qwen"));
  EXPECT_EQ(Load().run.model.path, In("configs/Qwen/Tiny-0.5B")) << "a path with a mistake";
}

TEST(HubNameTest, IsTwoWordsWithASlash) {
  for (const char* name : {"Qwen/Qwen2.5-0.5B", "google/gemma_2"}) EXPECT_TRUE(IsHubName(name));
  for (const char* path :
       {"model", "/models/qwen", "a/b/c", "models/", "./model", "../model", "my models/qwen", ""}) {
    EXPECT_FALSE(IsHubName(path)) << path;
  }
}

TEST_F(PathsTest, AStoredConfigurationMeansTheSameFromAnyFolder) {
  const RunConfig config = Load();
  const TempDir other;
  const std::string stored = JoinPath(other.path(), "config.yaml");
  ASSERT_TRUE(WriteFileAtomic(stored, PrintRunConfig(config)).ok());
  const auto again = LoadRunConfig(stored, {});
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(PrintRunConfig(*again), PrintRunConfig(config));
}

TEST_F(PathsTest, TheHashOfARunIsTheSameWhereverItsFilesLie) {
  const RunConfig config = Load();
  std::filesystem::create_directories(In("mount/elsewhere"));
  yaml_ = In("mount/elsewhere/run.yaml");
  ASSERT_TRUE(WriteFileAtomic(yaml_, kRelative).ok());
  const RunConfig moved = Load();
  EXPECT_NE(moved.run.data.held_out, config.run.data.held_out);
  EXPECT_EQ(RunConfigHash(moved), RunConfigHash(config));
  EXPECT_EQ(RunIdentityHash(moved), RunIdentityHash(config));
  for (const SettingChange& change : ChangesOf(config, moved))
    EXPECT_TRUE(change.allowed) << change.key;
  for (const char* other :
       {"run.data.sources.a.prompts=/r/other.jsonl", "run.model.path=models/other",
        "run.reward.verifier=python:lib/rewards.py:wrong"}) {
    EXPECT_NE(RunIdentityHash(Load({other})), RunIdentityHash(config)) << other;
    const auto changes = ChangesOf(moved, Load({other}));
    EXPECT_TRUE(std::ranges::any_of(changes, [](const auto& c) { return !c.allowed; })) << other;
  }
}

TEST(AbsolutePathTest, DotsAndSlashesAtTheEndGo) {
  EXPECT_EQ(AbsolutePath("a/../b/./c/", "/x"), "/x/b/c");
  EXPECT_EQ(AbsolutePath("/a/b", "/x"), "/a/b");
  EXPECT_EQ(AbsolutePath("..", "/x/y"), "/x");
  EXPECT_EQ(AbsolutePath("a"), std::filesystem::current_path().string() + "/a");
  EXPECT_EQ(FileNameOf("data/train/"), "train");
  EXPECT_EQ(WithFileNames("math + 2 * python:/a/b.py:f"), "math + 2 * python:b.py:f");
}

TEST_F(PathsTest, ATildeIsTheHomeFolderInTheFileAndInOverrides) {
  ::setenv("HOME", "/home/a", 1);
  ASSERT_TRUE(WriteFileAtomic(yaml_, R"(run:
  data: {prompts: ~/rows.jsonl}
  model: {path: m}
  reward: {verifier: "python:~/rewards.py:right"}
)")
                  .ok());
  const auto config = LoadRunConfig(yaml_, {"run.model.path=~/models/start", "local.out=~x"});
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->run.data.prompts, "/home/a/rows.jsonl");
  EXPECT_EQ(config->run.reward.verifier, "python:/home/a/rewards.py:right");
  EXPECT_EQ(config->run.model.path, "/home/a/models/start");
  EXPECT_TRUE(config->local.out.ends_with("/~x")) << config->local.out;
}

}  // namespace
}  // namespace buttress
