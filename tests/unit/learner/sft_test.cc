#include "learner/sft/sft.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <filesystem>

#include "cli/prepare/new_model.h"
#include "learner/step/micro_batch.h"
#include "lib/base/os/file.h"
#include "lib/policy/adapters/adapted_model.h"
#include "lib/policy/transformer.h"
#include "lib/tokenizer/tokenizer.h"
#include "tests/support/live_bytes.h"

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
    options.data.path = Path("data.jsonl");
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

// The losses and numbers of tokens that a run printed for the held-out rows.
std::vector<std::pair<double, int>> HeldOutLosses(const std::string& text) {
  constexpr char kLine[] = "sft: held-out loss ";
  std::vector<std::pair<double, int>> losses;
  for (std::size_t at = text.find(kLine); at != std::string::npos; at = text.find(kLine, at + 1)) {
    losses.push_back({std::stod(text.substr(at + sizeof kLine - 1)),
                      std::stoi(text.substr(text.find('(', at) + 1))});
  }
  return losses;
}

// The base has learned other responses, which the adapters change.
TEST_F(SftTest, AdaptersMemorizeAndAreWrittenAsAFolderOfPeft) {
  WriteData("{\"prompt\":\"1+2=\",\"response\":\"8\"}\n{\"prompt\":\"4+4=\",\"response\":\"3\"}\n");
  const auto group = MakeLocalCollective();
  options.lora.rank = 4;
  EXPECT_NE(RunSft(options, *group).message().find("has no weights"), std::string::npos);
  options.lora.rank = 0;
  options.out = Path("base");
  ASSERT_TRUE(RunSft(options, *group).ok());
  WriteData("{\"prompt\":\"1+2=\",\"response\":\"3\"}\n{\"prompt\":\"4+4=\",\"response\":\"8\"}\n");
  options.model = Path("base");
  options.out = Path("adapter");
  options.lora.rank = 4;
  options.held_out = options.data.path;
  testing::internal::CaptureStdout();
  const Status status = RunSft(options, *group);
  const std::string text = testing::internal::GetCapturedStdout();
  ASSERT_TRUE(status.ok()) << status.ToString();
  const auto losses = HeldOutLosses(text);
  EXPECT_GT(losses.front().first, 1.0);
  EXPECT_LT(losses.back().first, 0.2);
  EXPECT_FALSE(std::filesystem::exists(Path("adapter/model.safetensors")));
  const auto model = Transformer::Load(Path("base"), ModelDtype::kFloat32, {});
  ASSERT_TRUE(model.ok());
  const Status added = AddAdapters(Path("adapter"), **model);
  EXPECT_TRUE(added.ok()) << added.ToString();

  options.lora.adapter = Path("adapter");
  options.out = Path("continued");
  options.steps = 1;
  testing::internal::CaptureStdout();
  const Status continued = RunSft(options, *group);
  const auto later = HeldOutLosses(testing::internal::GetCapturedStdout());
  ASSERT_TRUE(continued.ok()) << continued.ToString();
  EXPECT_EQ(later.front().first, losses.back().first);
  options.lora.rank = 8;
  EXPECT_NE(RunSft(options, *group).message().find("has rank 4, "), std::string::npos);
  options.lora.rank = 0;
  EXPECT_NE(RunSft(options, *group).message().find("--adapter needs --lora-rank"),
            std::string::npos);
}

// Micro-batches of fewer bytes give the same losses.
TEST_F(SftTest, MicroBatchesTakeNoMoreBytesThanTheBound) {
  WriteData("{\"prompt\":\"1+2=\",\"response\":\"3\"}\n{\"prompt\":\"4+4=\",\"response\":\"8\"}\n");
  options.held_out = options.data.path;
  options.batch = 1024;
  options.steps = 2;
  const auto group = MakeLocalCollective();
  const auto train = [&](std::int64_t mib, std::int64_t& taken) {
    options.micro_batch_mib = mib;
    testing::internal::CaptureStdout();
    const LiveBytes bytes;
    const Status status = RunSft(options, *group);
    taken = bytes.peak();
    const std::string text = testing::internal::GetCapturedStdout();
    EXPECT_TRUE(status.ok()) << status.ToString();
    return HeldOutLosses(text);
  };
  std::int64_t whole = 0, split = 0;
  EXPECT_EQ(train(0, whole), train(1, split));
  EXPECT_GT(whole, 4 << 20);
  EXPECT_LT(split, 2 << 20);
}

TEST_F(SftTest, TurnsOfTheAssistantAreTrainedAndTheHeldOutLossIsShown) {
  ASSERT_TRUE(WriteFileAtomic(Path("model/chat_template.jinja"),
                              "{% for m in messages %}{{ m.content }}{% endfor %}")
                  .ok());
  WriteData(
      R"({"messages": [{"role": "user", "content": "1+2="}, {"role": "assistant", "content": "3"},)"
      R"({"role": "user", "content": "4+4="}, {"role": "assistant", "content": "8"}]})");
  options.held_out = options.data.path;
  options.eval_every = 20;
  const auto group = MakeLocalCollective();
  testing::internal::CaptureStdout();
  const Status status = RunSft(options, *group);
  const std::string text = testing::internal::GetCapturedStdout();
  ASSERT_TRUE(status.ok()) << status.ToString();
  const auto losses = HeldOutLosses(text);
  ASSERT_EQ(losses.size(), 4U) << text;  // before, at steps 20 and 40, and after
  EXPECT_EQ(losses[0].second, 2) << "the digits of the assistant, and none of the user's";
  EXPECT_LT(losses.back().first, 0.1);
  EXPECT_GT(losses.front().first, 1.0);
  EXPECT_NE(text.find("2 of 2 turns have no end token"), std::string::npos) << text;
}

TEST_F(SftTest, ErrorsNameTheBadLineAndOptionsThatExclude) {
  WriteData("{\"prompt\":\"1+2=\",\"response\":\"3\"}\n{\"prompt\":\"1+2=\",\"answer\":\"3\"}\n");
  const auto group = MakeLocalCollective();
  const Status status = RunSft(options, *group);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("line 2: no field 'response'"), std::string::npos)
      << status.message();
  options.held_out = options.data.path;
  options.held_out_share = 0.5;
  EXPECT_NE(RunSft(options, *group).message().find("exclude"), std::string::npos);
}

TEST(TokenBatchTest, OnlyTrainedSpansAreTargets) {
  TokenBatch batch;
  const std::vector<std::int32_t> prompt = {1, 2}, completion = {3, 4, 5, 6};
  const TokenSpan spans[] = {{0, 1}, {2, 4}};
  batch.Add(prompt, completion, spans);
  EXPECT_EQ(batch.input_tokens(), 5);  // all but the last
  EXPECT_EQ(batch.trained_tokens(), 3);
}

}  // namespace
}  // namespace buttress
