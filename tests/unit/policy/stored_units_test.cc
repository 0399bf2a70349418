#include "lib/policy/weights/stored_units.h"

#include <gmock/gmock.h>
#include <torch/types.h>

#include <algorithm>
#include <filesystem>

#include "lib/policy/exception_status.h"
#include "lib/policy/model_pass.h"
#include "tests/support/live_bytes.h"
#include "tests/support/named_gradients.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/policy/golden.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Transformer> StoredModel(const std::string& folder, ModelDtype dtype) {
  auto model = Transformer::Load(folder, dtype, {}, {.stored = true});
  EXPECT_TRUE(model.ok()) << model.status().ToString();
  return *std::move(model);
}

at::Tensor ScoresOf(Transformer& model) {
  const at::NoGradGuard no_grad;
  PassTokens tokens = ScoredSequences({{5, 9, 2, 7}, {1, 4, 8}, {3, 3, 6, 2, 1}});
  tokens.prefixes = {-1, 0, 0};
  return ModelPass(model, tokens, {}).output().logprobs_M;
}

TEST(StoredUnitsTest, LogprobsHaveTheBitsOfAHeldModel) {
  for (const auto& entry : std::filesystem::directory_iterator(BUTTRESS_GOLDEN)) {
    if (!entry.is_directory()) continue;
    const std::string name = entry.path().filename().string();
    for (const ModelDtype dtype : {ModelDtype::kFloat32, ModelDtype::kBfloat16}) {
      const auto held = GoldenModel(name, dtype);
      const auto stored = StoredModel(GoldenFolder(name), dtype);
      const at::Tensor expected = ScoresOf(*held);
      for (int pass = 0; pass < 2; ++pass)
        EXPECT_TRUE(ScoresOf(*stored).equal(expected)) << name << " pass " << pass;
    }
  }
}

// A model of twelve blocks in a folder.
class StoredFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    auto json = nlohmann::json::parse(*ReadFile(GoldenFolder("qwen2_tiny") + "/config.json"));
    json["num_hidden_layers"] = 12;
    if (json.contains("layer_types"))
      json["layer_types"] = std::vector<std::string>(12, "full_attention");
    const std::string source = JoinPath(dir_.path(), "source");
    ASSERT_TRUE(MakeFolders(source).ok());
    ASSERT_TRUE(WriteFileAtomic(JoinPath(source, "config.json"), json.dump()).ok());
    const auto config = LoadModelConfig(source);
    ASSERT_TRUE(config.ok()) << config.status().ToString();
    const auto model = Transformer::Random(*config, ModelDtype::kFloat32, {}, 1);
    ASSERT_TRUE(model.ok());
    for (const ParameterUnit& unit : (*model)->units())
      sizes_.push_back(static_cast<std::int64_t>(unit.flat.nbytes()));
    ASSERT_TRUE(SaveModelFolder(**model, source, folder_).ok());
  }

  std::string weights() const { return JoinPath(folder_, "model.safetensors"); }

  const TempDir dir_;
  const std::string folder_ = JoinPath(dir_.path(), "model");
  std::vector<std::int64_t> sizes_;  // bytes by unit
};

TEST_F(StoredFolderTest, HoldsTheUnitInUseAndTheNextOne) {
  const std::int64_t largest = *std::ranges::max_element(sizes_);
  const std::int64_t block = sizes_[1];
  const LiveBytes live;
  const auto model = StoredModel(folder_, ModelDtype::kFloat32);
  EXPECT_EQ(live.now(), 0);
  EXPECT_LE(live.peak(), largest);
  ScoresOf(*model);
  const std::int64_t tables = live.now();  // of positions
  EXPECT_LT(tables, block / 2);
  for (std::size_t unit = 0; unit < sizes_.size(); ++unit) {
    {
      const HeldUnit held = model->Hold(unit);
      EXPECT_EQ(live.now() - tables, sizes_[unit]);
      const HeldUnit again = model->Hold(unit);
      EXPECT_EQ(live.now() - tables, sizes_[unit]);
    }
    EXPECT_EQ(live.now(), tables);
  }
  {
    const HeldUnit held = model->Hold(1);
    for (const std::size_t next : {2U, 2U, 3U, 1U}) {  // one ahead; one that is held is there
      model->Prefetch(next);
      EXPECT_EQ(live.now() - tables, 2 * block);
    }
    const HeldUnit other = model->Hold(3);
    EXPECT_EQ(live.now() - tables, 2 * block);
  }
  EXPECT_EQ(live.now(), tables);
  ScoresOf(*model);
  EXPECT_EQ(live.now(), tables);
}

TEST_F(StoredFolderTest, AFileThatWasReplacedIsReadAsItWas) {
  const auto model = StoredModel(folder_, ModelDtype::kFloat32);
  const at::Tensor before = ScoresOf(*model);
  ASSERT_TRUE(WriteFileAtomic(weights(), "another file").ok());
  EXPECT_TRUE(ScoresOf(*model).equal(before));
  std::filesystem::remove(weights());
  EXPECT_TRUE(ScoresOf(*model).equal(before));
}

TEST_F(StoredFolderTest, AFileThatWasTruncatedIsAnErrorAndTheMemoryIsFreed) {
  const LiveBytes live;
  const auto model = StoredModel(folder_, ModelDtype::kFloat32);
  const std::int64_t tables = live.now();
  std::filesystem::resize_file(weights(), std::filesystem::file_size(weights()) / 2);
  try {
    const HeldUnit held = model->Hold(3);
    ADD_FAILURE() << "the unit was read";
  } catch (const StatusError& error) {
    EXPECT_EQ(error.status().code(), StatusCode::kDataLoss);
    EXPECT_THAT(error.what(), HasSubstr("weights of block 2: " + weights()));
    EXPECT_THAT(error.what(), HasSubstr("was changed while it is in use; restore the file"));
  }
  EXPECT_EQ(live.now(), tables);
}

}  // namespace
}  // namespace buttress
