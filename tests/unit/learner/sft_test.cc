#include "learner/sft.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <filesystem>
#include <set>

#include "cli/new_model_folder.h"
#include "learner/sft_data.h"
#include "learner/token_batch.h"
#include "lib/base/file.h"
#include "lib/policy/transformer.h"
#include "lib/tokenizer/tokenizer.h"

namespace buttress {
namespace {

class SftTest : public testing::Test {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    folder = (std::filesystem::path(testing::TempDir()) / "sft_test").string();
    std::filesystem::remove_all(folder);
    NewModelOptions model;
    model.characters = "0123456789+=";
    model.layers = 1;
    model.hidden = 32;
    model.heads = 1;
    model.intermediate = 64;
    model.max_positions = 32;
    const Status written = WriteNewModel(model, Path("model"));
    ASSERT_TRUE(written.ok()) << written.ToString();
    options.model = Path("model");
    options.data = Path("data.jsonl");
    options.out = Path("out");
    options.steps = 60;
    options.batch = 4;
    options.lr = 1e-2;
    options.warmup_steps = 5;
  }

  std::string Path(const std::string& name) const { return JoinPath(folder, name); }

  void WriteData(const std::string& text) const {
    ASSERT_TRUE(WriteFileAtomic(Path("data.jsonl"), text).ok());
  }

  std::string folder;
  SftOptions options;
};

TEST_F(SftTest, MemorizesItsResponsesAndWritesAFolderThatLoads) {
  WriteData(
      "{\"prompt\":\"1+2=\",\"response\":\"3\"}\n{\"prompt\":\"4+4=\",\"response\":\"8\"}\n\n");
  const auto group = MakeLocalCollective();
  const Status status = RunSft(options, *group);
  ASSERT_TRUE(status.ok()) << status.ToString();
  const auto model = Transformer::Load(options.out, ModelDtype::kFloat32, {});
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  const auto tokenizer = Tokenizer::Load(options.out);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  TokenBatch batch;
  const auto prompt = (*tokenizer)->Encode("4+4=");
  auto response = (*tokenizer)->Encode("8");
  ASSERT_TRUE(prompt.ok() && response.ok());
  response->push_back((*model)->config().eos_token_ids.front());
  batch.Add(*prompt, *response, {});
  const at::NoGradGuard no_grad;
  const at::Tensor logprobs_M = batch.Run(**model, {}).output().logprobs_M;
  EXPECT_EQ(logprobs_M.numel(), 2);  // the digit and the end
  EXPECT_GT(logprobs_M.min().item<float>(), -0.1);
}

TEST_F(SftTest, ErrorsNameTheBadLine) {
  WriteData("{\"prompt\":\"1+2=\",\"response\":\"3\"}\n{\"prompt\":\"1+2=\",\"answer\":\"3\"}\n");
  const auto group = MakeLocalCollective();
  const Status status = RunSft(options, *group);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("data.jsonl:2: no field 'response'"), std::string::npos)
      << status.message();
}

TEST_F(SftTest, FieldsAreConfigurableAndExamplesThatAreTooLongAreRejected) {
  WriteData("{\"q\":\"1+2=\",\"a\":\"3333333333333333333333333333333333\"}\n");
  options.prompt_field = "q";
  options.response_field = "a";
  const auto group = MakeLocalCollective();
  const Status status = RunSft(options, *group);
  EXPECT_NE(status.message().find("39 tokens, the model has 32 positions"), std::string::npos)
      << status.message();
}

TEST(TokenBatchTest, OnlyTrainedSpansAreTargets) {
  TokenBatch batch;
  const std::vector<std::int32_t> prompt = {1, 2}, completion = {3, 4, 5, 6};
  const TokenSpan spans[] = {{0, 1}, {2, 4}};
  batch.Add(prompt, completion, spans);
  EXPECT_EQ(batch.input_tokens(), 5);  // all but the last
  EXPECT_EQ(batch.trained_tokens(), 3);
}

TEST(ShuffledIndicesTest, EachPassHasEveryIndexOnceInAnotherOrder) {
  ShuffledIndices indices(20, 3);
  std::vector<std::size_t> first, second;
  for (int i = 0; i < 20; ++i) first.push_back(indices.Next());
  for (int i = 0; i < 20; ++i) second.push_back(indices.Next());
  EXPECT_EQ(std::set<std::size_t>(first.begin(), first.end()).size(), 20u);
  EXPECT_EQ(std::set<std::size_t>(second.begin(), second.end()).size(), 20u);
  EXPECT_NE(first, second);
}

}  // namespace
}  // namespace buttress
