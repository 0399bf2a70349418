#include "lib/policy/decode/generator.h"

#include <gmock/gmock.h>
#include <torch/types.h>

#include <filesystem>
#include <map>
#include <set>

#include "lib/policy/cpu/for_rows.h"
#include "tests/support/fakes/byte_tokenizer.h"
#include "tests/support/live_bytes.h"
#include "tests/unit/policy/golden.h"
#include "tests/unit/policy/teacher_forced.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

std::map<std::uint64_t, GeneratedSequence> RunAll(Generator& generator) {
  std::map<std::uint64_t, GeneratedSequence> done;
  while (generator.running() + generator.waiting() > 0) {
    for (auto& sequence : generator.Step()) done[sequence.key] = std::move(sequence);
  }
  return done;
}

SamplingParams Sampling(std::uint64_t seed, std::int32_t max_tokens, double temperature = 0.8) {
  SamplingParams sampling;
  sampling.temperature = temperature;
  sampling.max_tokens = max_tokens;
  sampling.seed = seed;
  return sampling;
}

void Scale(Transformer& model, double factor) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : model.parameters()) at::Tensor(tensor).mul_(factor);
}

TEST(GeneratorTest, LogprobsEqualTheLearnersAloneAndInABatch) {
  const auto model = GoldenModel("qwen2_untied");
  double worst = 0;
  for (const std::size_t batch : {std::size_t{1}, std::size_t{20}}) {
    Generator generator(*model, {.max_running = 8, .kv_cache_tokens = 4096});
    std::map<std::uint64_t, std::vector<std::int32_t>> prompts;
    for (std::uint64_t key = 0; key < batch; ++key) {
      prompts[key] =
          PromptOf(static_cast<std::int32_t>(key / 4), 3 + 9 * static_cast<std::int32_t>(key / 4));
      ASSERT_TRUE(generator.Add(key, prompts[key], Sampling(key, 40)).ok());
    }
    const auto done = RunAll(generator);
    ASSERT_EQ(done.size(), batch);
    for (const auto& [key, sequence] : done) {
      EXPECT_EQ(sequence.token_ids.size(), sequence.logprobs.size());
      EXPECT_THAT(sequence.segment_starts, ::testing::ElementsAre(0));
      worst = std::max(worst, TeacherForcedError(*model, prompts[key], sequence, 0.8));
    }
  }
  RecordProperty("worst_difference", std::to_string(worst));
  EXPECT_LT(worst, 1e-4);
}

// Tokens depend on the seed and their index only, so that it does not matter who sampled the first.
TEST(GeneratorTest, ASequenceThatBeginsWithTokensContinuesAsIfItHadSampledThem) {
  const auto model = GoldenModel("qwen2_tiny");
  const GeneratorOptions options = {.max_running = 4, .kv_cache_tokens = 1024};
  const auto prompt = PromptOf(3, 20);
  Generator first(*model, options);
  ASSERT_TRUE(first.Add(0, prompt, Sampling(5, 40)).ok());
  std::vector<GeneratedSequence> unfinished;
  while (unfinished.empty() || unfinished[0].token_ids.size() < 17) {
    ASSERT_TRUE(first.Step().empty());
    unfinished = first.Unfinished();
  }
  const GeneratedSequence begun = unfinished.at(0);
  const GeneratedSequence whole = RunAll(first).at(0);

  Generator second(*model, options);
  ASSERT_TRUE(second.Add(0, prompt, Sampling(6, 9)).ok());
  ASSERT_TRUE(
      second.Add(1, prompt, Sampling(5, 40), nullptr, {begun.token_ids, begun.logprobs}).ok());
  EXPECT_TRUE(second.Unfinished().empty()) << "it has sampled nothing yet";
  const GeneratedSequence continued = RunAll(second).at(1);
  EXPECT_EQ(continued.token_ids, whole.token_ids);
  EXPECT_EQ(continued.logprobs, whole.logprobs);
  EXPECT_THAT(continued.segment_starts, ::testing::ElementsAre(17));

  const std::vector<float> some(3, -1);
  const auto add = [&](std::vector<std::int32_t> tokens, std::int32_t max_tokens) {
    return second.Add(2, prompt, Sampling(5, max_tokens), nullptr, {std::move(tokens), some})
        .ToString();
  };
  EXPECT_THAT(add({1, 2, 3}, 3), HasSubstr("fewer than 3"));
  EXPECT_THAT(add({1, 2}, 9), HasSubstr("2 tokens and 3 log-probs"));
  EXPECT_THAT(add({1, 2, 1 << 20}, 9), HasSubstr("vocabulary"));
}

TEST(GeneratorTest, LogprobsStayEqualWhenCacheBlocksAreUsedAgain) {
  const auto model = GoldenModel("qwen2_tiny");
  // The cache has room for two sequences, so that many use each block.
  Generator generator(*model, {.max_running = 8, .kv_cache_tokens = 160});
  double worst = 0;
  std::map<std::uint64_t, std::vector<std::int32_t>> prompts;
  for (std::uint64_t key = 0; key < 12; ++key) {
    prompts[key] = PromptOf(static_cast<std::int32_t>(key), 17 + static_cast<std::int32_t>(key));
    ASSERT_TRUE(generator.Add(key, prompts[key], Sampling(key, 20)).ok());
  }
  const auto done = RunAll(generator);
  ASSERT_EQ(done.size(), 12u);
  for (const auto& [key, sequence] : done)
    worst = std::max(worst, TeacherForcedError(*model, prompts[key], sequence, 0.8));
  EXPECT_LT(worst, 1e-4);
}

TEST(GeneratorTest, InFlightSequencesContinueUnderNewWeights) {
  const auto model = GoldenModel("qwen2_tiny");
  Generator generator(*model, {.max_running = 4, .kv_cache_tokens = 4096});
  std::map<std::uint64_t, std::vector<std::int32_t>> prompts;
  // Two prompts with three sequences each, two of which still wait when the weights change.
  for (std::uint64_t key = 0; key < 6; ++key) {
    prompts[key] = PromptOf(static_cast<std::int32_t>(key / 3), 21);
    SamplingParams sampling = Sampling(key, 30);
    ASSERT_TRUE(generator.Add(key, prompts[key], sampling).ok());
  }
  for (int step = 0; step < 10; ++step) ASSERT_TRUE(generator.Step().empty());
  Scale(*model, 1.05);
  generator.WeightsChanged();
  const auto done = RunAll(generator);
  double worst = 0;
  int in_flight = 0;
  for (const auto& [key, sequence] : done) {
    const auto first = static_cast<std::size_t>(sequence.segment_starts.back());
    in_flight += sequence.segment_starts.size() == 2 ? 1 : 0;
    if (sequence.segment_starts.size() == 2) {
      EXPECT_EQ(first, 10u);
    }
    worst = std::max(worst, TeacherForcedError(*model, prompts[key], sequence, 0.8, first));
  }
  EXPECT_EQ(in_flight, 4);
  EXPECT_LT(worst, 1e-4);
}

// Behind the keys and values of the old weights, the new ones give other log-probs than a forward
// pass of their own.
TEST(GeneratorTest, InFlightSequencesContinueBehindTheCacheOfTheOldWeights) {
  const auto model = GoldenModel("qwen2_tiny");
  Generator generator(*model, {.max_running = 4, .kv_cache_tokens = 4096});
  const std::vector<std::int32_t> prompt = PromptOf(0, 21);
  for (std::uint64_t key = 0; key < 2; ++key)
    ASSERT_TRUE(generator.Add(key, prompt, Sampling(key, 30)).ok());
  for (int step = 0; step < 10; ++step) ASSERT_TRUE(generator.Step().empty());
  Scale(*model, 1.05);
  generator.WeightsChanged(/*keep_cache=*/true);
  ASSERT_TRUE(generator.Add(2, PromptOf(1, 21), Sampling(2, 30)).ok());
  const auto done = RunAll(generator);
  for (std::uint64_t key = 0; key < 2; ++key) {
    EXPECT_THAT(done.at(key).segment_starts, ::testing::ElementsAre(0, 10));
    EXPECT_GT(TeacherForcedError(*model, prompt, done.at(key), 0.8, 10), 1e-3);
  }
  EXPECT_LT(TeacherForcedError(*model, PromptOf(1, 21), done.at(2), 0.8), 1e-4);
}

TEST(GeneratorTest, RestartedSequencesAreThoseOfTheNewWeights) {
  const auto model = GoldenModel("qwen2_tiny");
  Generator generator(*model, {.max_running = 2, .kv_cache_tokens = 4096});
  for (std::uint64_t key = 0; key < 4; ++key)
    ASSERT_TRUE(generator.Add(key, PromptOf(0, 21), Sampling(key, 30)).ok());
  for (int step = 0; step < 10; ++step) ASSERT_TRUE(generator.Step().empty());
  Scale(*model, 1.05);
  EXPECT_EQ(generator.Restart(), 20);
  generator.WeightsChanged();
  const auto done = RunAll(generator);
  for (std::uint64_t key = 0; key < 4; ++key) {
    EXPECT_THAT(done.at(key).segment_starts, ::testing::ElementsAre(0));
    EXPECT_EQ(done.at(key).token_ids.size(), 30U);
    EXPECT_LT(TeacherForcedError(*model, PromptOf(0, 21), done.at(key), 0.8), 1e-4);
  }
}

// Twelve sequences behind three prompts of qwen2_tiny.
std::vector<std::int32_t> SharedPrompt(std::uint64_t key) {
  constexpr std::int32_t kLengths[] = {21, 32, 40};
  return PromptOf(static_cast<std::int32_t>(key % 3), kLengths[key % 3]);
}

constexpr std::uint64_t kSharing = 12;

void AddSharing(Generator& generator) {
  for (std::uint64_t key = 0; key < kSharing; ++key)
    ASSERT_TRUE(generator.Add(key, SharedPrompt(key), Sampling(key, 100)).ok());
}

// The cache holds about three sequences: the others wait, before or after they have tokens.
TEST(GeneratorTest, ACacheThatIsTooSmallForTheBatchChangesNoCompletion) {
  const auto model = GoldenModel("qwen2_tiny");
  Generator roomy(*model, {.kv_cache_tokens = 65536});
  AddSharing(roomy);
  const auto expected = RunAll(roomy);
  Generator small(*model, {.kv_cache_tokens = 400});
  AddSharing(small);
  std::map<std::uint64_t, GeneratedSequence> done;
  std::int64_t preempted = 0;
  while (done.size() < kSharing) {
    const std::int64_t waiting = small.waiting();
    for (auto& sequence : small.Step()) done[sequence.key] = std::move(sequence);
    preempted += std::max<std::int64_t>(0, small.waiting() - waiting);
  }
  EXPECT_GT(preempted, 0);
  for (const auto& [key, sequence] : done) {
    EXPECT_EQ(sequence.token_ids.size(), 100U);
    EXPECT_LT(TeacherForcedError(*model, SharedPrompt(key), sequence, 0.8), 1e-4);
    EXPECT_EQ(sequence.token_ids, expected.at(key).token_ids) << key;
    EXPECT_EQ(sequence.logprobs, expected.at(key).logprobs) << key;
  }
}

// A step computes 512 tokens of prompts at most while a sequence decodes.
TEST(GeneratorTest, ALongPromptDoesNotStopTheSequencesThatDecode) {
  ModelConfig config = GoldenModel("qwen2_tiny")->config();
  config.max_positions = 2048;
  const auto model = Transformer::Random(config, ModelDtype::kFloat32, {}, 3);
  ASSERT_TRUE(model.ok());
  Generator generator(**model, {});
  ASSERT_TRUE(generator.Add(1, PromptOf(1, 20), Sampling(1, 4)).ok());
  ASSERT_TRUE(generator.Add(2, PromptOf(2, 20), Sampling(2, 9)).ok());
  ASSERT_TRUE(generator.Step().empty());
  const auto prompt = PromptOf(3, 1300);
  ASSERT_TRUE(generator.Add(3, prompt, Sampling(3, 5)).ok());
  std::map<std::uint64_t, GeneratedSequence> done;
  std::map<std::uint64_t, int> ended;  // by key, the step in which it ended
  for (int step = 2; done.size() < 3; ++step) {
    for (auto& sequence : generator.Step()) {
      ended[sequence.key] = step;
      done[sequence.key] = std::move(sequence);
    }
  }
  // One token a step; the long prompt takes the steps 2 to 4.
  EXPECT_THAT(ended, ::testing::ElementsAre(std::pair(1, 4), std::pair(2, 9), std::pair(3, 8)));
  EXPECT_LT(TeacherForcedError(**model, prompt, done.at(3), 0.8), 1e-4);
  Generator alone(**model, {});
  ASSERT_TRUE(alone.Add(3, prompt, Sampling(3, 5)).ok());
  EXPECT_EQ(RunAll(alone).at(3).logprobs, done.at(3).logprobs);
}

TEST(GeneratorTest, PreemptedSequencesContinueUnderNewWeights) {
  const auto model = GoldenModel("qwen2_tiny");
  Generator generator(*model, {.kv_cache_tokens = 400});
  AddSharing(generator);
  const std::int64_t admitted = [&] {
    EXPECT_TRUE(generator.Step().empty());
    return generator.running();
  }();
  while (generator.running() >= admitted) ASSERT_TRUE(generator.Step().empty());
  {
    const at::NoGradGuard no_grad;
    for (const auto& [name, tensor] : model->parameters()) at::Tensor(tensor).mul_(1.05);
  }
  generator.WeightsChanged();
  std::int64_t crossed = 0;
  for (const auto& [key, sequence] : RunAll(generator)) {
    crossed += std::ssize(sequence.segment_starts) - 1;
    const auto last = static_cast<std::size_t>(sequence.segment_starts.back());
    EXPECT_LT(TeacherForcedError(*model, SharedPrompt(key), sequence, 0.8, last), 1e-4);
  }
  EXPECT_EQ(crossed, admitted);
}

// Prompts within a block, of whole blocks, and of blocks and a part; more sequences behind one of
// them than one pass takes.
void ExpectManyContinueUnderNewWeights() {
  const auto model = GoldenModel("qwen2_tiny");
  Generator generator(*model, {.max_running = 400, .kv_cache_tokens = 32768});
  std::map<std::uint64_t, std::vector<std::int32_t>> prompts;
  for (const auto& [length, samples] : {std::pair{5, 4}, {16, 3}, {32, 1}, {100, 320}}) {
    for (int i = 0; i < samples; ++i) {
      const std::uint64_t key = prompts.size();
      prompts[key] = PromptOf(length, length);
      ASSERT_TRUE(generator.Add(key, prompts[key], Sampling(key, 14)).ok());
    }
  }
  for (int step = 0; step < 9; ++step) ASSERT_TRUE(generator.Step().empty());
  ASSERT_EQ(generator.running(), 328);
  {
    const at::NoGradGuard no_grad;
    for (const auto& [name, tensor] : model->parameters()) at::Tensor(tensor).mul_(1.05);
  }
  generator.WeightsChanged();
  double worst = 0;
  for (const auto& [key, sequence] : RunAll(generator)) {
    ASSERT_THAT(sequence.segment_starts, ::testing::ElementsAre(0, 9));
    if (key > 8 && key % 16 != 0) continue;
    worst = std::max(worst, TeacherForcedError(*model, prompts[key], sequence, 0.8, 9));
  }
  EXPECT_LT(worst, 1e-4);
}

TEST(GeneratorTest, ManySequencesContinueUnderNewWeights) {
  ExpectManyContinueUnderNewWeights();
  const PortableOnly operators_of_gpus;
  ExpectManyContinueUnderNewWeights();
}

TEST(GeneratorTest, ACompletionHasTheSameBitsAloneAndInABatch) {
  const GeneratorOptions options = {.max_running = 64, .kv_cache_tokens = 65536};
  for (const std::string name : {"qwen2_untied", "qwen3_moe"}) {
    const auto model = GoldenModel(name);
    const auto prompt_of = [](std::uint64_t key) {
      return PromptOf(static_cast<std::int32_t>(key / 2), 1 + static_cast<std::int32_t>(key), 63);
    };
    Generator together(*model, options);
    for (std::uint64_t key = 0; key < 50; ++key)
      ASSERT_TRUE(together.Add(key, prompt_of(key), Sampling(key, 25)).ok());
    const auto done = RunAll(together);
    for (std::uint64_t key = 0; key < 50; key += 7) {
      Generator alone(*model, options);
      ASSERT_TRUE(alone.Add(key, prompt_of(key), Sampling(key, 25)).ok());
      const auto again = RunAll(alone);
      EXPECT_EQ(again.at(key).token_ids, done.at(key).token_ids) << name << " " << key;
      EXPECT_EQ(again.at(key).logprobs, done.at(key).logprobs) << name << " " << key;
    }
  }
}

TEST(GeneratorTest, SequencesEndAtStopTokensAndAtTheLimit) {
  const auto model = GoldenModel("qwen2_tiny");
  Generator generator(*model, {});
  ASSERT_TRUE(generator.Add(1, {5, 6}, Sampling(1, 10, 0)).ok());
  const auto free_run = RunAll(generator);
  const auto& tokens = free_run.at(1).token_ids;
  ASSERT_EQ(free_run.at(1).finish_reason, FinishReason::kLength);
  ASSERT_EQ(tokens.size(), 10u);
  SamplingParams stopping = Sampling(1, 10, 0);
  stopping.stop_token_ids = {tokens[3]};
  ASSERT_TRUE(generator.Add(2, {5, 6}, stopping).ok());
  const auto stopped = RunAll(generator);
  const auto first = std::find(tokens.begin(), tokens.end(), tokens[3]);
  EXPECT_EQ(stopped.at(2).token_ids, std::vector<std::int32_t>(tokens.begin(), first + 1));
  EXPECT_EQ(stopped.at(2).finish_reason, FinishReason::kStop);
}

TEST(GeneratorTest, SequencesEndAtTheTokenThatCompletesAStopString) {
  const auto model = GoldenModel("qwen2_tiny");
  const ByteTokenizer tokenizer;
  Generator generator(*model, {});
  ASSERT_TRUE(generator.Add(1, {5, 6}, Sampling(1, 10, 0)).ok());
  const auto tokens = RunAll(generator).at(1).token_ids;
  const std::string text = *tokenizer.Decode(tokens, SpecialTokens::kKeep);
  for (const std::int32_t min_tokens : {0, 4}) {
    SamplingParams stopping = Sampling(1, 10, 0);
    stopping.stop = {"not in the text", text.substr(5, 3), text.substr(1, 2)};
    stopping.min_tokens = min_tokens;
    ASSERT_TRUE(generator.Add(2, {5, 6}, stopping, &tokenizer).ok());
    const auto stopped = RunAll(generator).at(2);
    const std::ptrdiff_t end = min_tokens == 0 ? 3 : 8;
    EXPECT_EQ(stopped.token_ids, std::vector(tokens.begin(), tokens.begin() + end));
    EXPECT_EQ(stopped.logprobs.size(), stopped.token_ids.size());
    EXPECT_EQ(stopped.finish_reason, FinishReason::kStop);
  }
  // The string is complete at the limit: the sequence stopped, it was not cut.
  SamplingParams at_limit = Sampling(1, 10, 0);
  at_limit.stop = {text.substr(6)};
  ASSERT_TRUE(generator.Add(3, {5, 6}, at_limit, &tokenizer).ok());
  const auto whole = RunAll(generator).at(3);
  EXPECT_EQ(whole.token_ids, tokens);
  EXPECT_EQ(whole.finish_reason, FinishReason::kStop);
  EXPECT_THAT(generator.Add(4, {5, 6}, at_limit).message(), HasSubstr("need a tokenizer"));
}

TEST(GeneratorTest, StopTokensAreNotSampledBeforeMinTokens) {
  constexpr std::int32_t kLeft = 120;  // the first token that does not stop
  const auto model = GoldenModel("qwen2_tiny");
  Generator generator(*model, {});
  SamplingParams sampling = Sampling(1, 12, 1.0);
  for (std::int32_t id = 0; id < kLeft; ++id) sampling.stop_token_ids.push_back(id);
  sampling.min_tokens = 6;
  ASSERT_TRUE(generator.Add(1, {5, 6}, sampling).ok());
  sampling.min_tokens = 12;
  ASSERT_TRUE(generator.Add(2, {5, 6}, sampling).ok());
  const auto done = RunAll(generator);
  EXPECT_EQ(done.at(2).token_ids.size(), 12U);
  EXPECT_EQ(done.at(2).finish_reason, FinishReason::kLength);
  const GeneratedSequence& ended = done.at(1);
  const auto count = static_cast<std::int64_t>(ended.token_ids.size());
  ASSERT_GT(count, 6);
  EXPECT_EQ(ended.finish_reason, FinishReason::kStop);

  // The log-probs are of the tokens that could be sampled: at first those that do not stop.
  std::vector<std::int64_t> ids = {5, 6};
  ids.insert(ids.end(), ended.token_ids.begin(), ended.token_ids.end());
  const at::NoGradGuard no_grad;
  const auto length = static_cast<std::int64_t>(ids.size());
  const at::Tensor logits =
      model->Logits(model->Hidden(torch::tensor(ids, torch::kInt64), std::span(&length, 1)));
  for (std::int64_t t = 0; t < count; ++t) {
    const std::int64_t first = t < 6 ? kLeft : 0;
    const std::int64_t token = ids[static_cast<std::size_t>(2 + t)];
    ASSERT_GE(token, first);
    const at::Tensor row = logits[t + 1].narrow(0, first, 128 - first).log_softmax(0);
    EXPECT_NEAR(ended.logprobs[static_cast<std::size_t>(t)], row[token - first].item<float>(),
                1e-4);
  }
  EXPECT_LT(ended.token_ids.back(), kLeft);
}

TEST(GeneratorTest, ARemovedSequenceFreesItsRoomAndLeavesTheOthersAlone) {
  const auto model = GoldenModel("qwen2_tiny");
  Generator generator(*model, {.max_running = 2});
  for (std::uint64_t key = 0; key < 3; ++key)
    ASSERT_TRUE(generator.Add(key, {1, 2, 3}, Sampling(key, 5)).ok());
  ASSERT_TRUE(generator.Step().empty());
  EXPECT_TRUE(generator.Remove(0));
  EXPECT_TRUE(generator.Remove(2));
  EXPECT_FALSE(generator.Remove(9));
  const auto done = RunAll(generator);
  EXPECT_EQ(done.size(), 1u);
  EXPECT_EQ(done.count(1), 1u);
}

TEST(GeneratorTest, ACompletionIsCutAtTheLastPositionOfTheModel) {
  const auto model = GoldenModel("qwen2_tiny");
  Generator generator(*model, {});
  const auto positions = static_cast<std::int32_t>(model->config().max_positions);
  const auto prompt = PromptOf(1, positions - 7);
  ASSERT_TRUE(generator.Add(1, prompt, Sampling(1, 40)).ok());
  ASSERT_TRUE(generator.Add(2, PromptOf(1, positions - 1), Sampling(1, 40)).ok());
  EXPECT_EQ(generator.Add(3, PromptOf(1, positions), Sampling(1, 1)).code(),
            StatusCode::kOutOfRange);
  const auto done = RunAll(generator);
  EXPECT_EQ(done.at(1).token_ids.size(), 7U);
  EXPECT_EQ(done.at(1).finish_reason, FinishReason::kLength);
  EXPECT_LT(TeacherForcedError(*model, prompt, done.at(1), 0.8), 1e-4);
  EXPECT_EQ(done.at(2).token_ids.size(), 1U);
}

TEST(GeneratorTest, SequencesThatCanNeverRunAreRefused) {
  const auto model = GoldenModel("qwen2_tiny");
  Generator generator(*model, {.kv_cache_tokens = 64});
  EXPECT_THAT(generator.Add(1, {}, {}).message(), HasSubstr("no tokens"));
  EXPECT_THAT(generator.Add(1, {128}, {}).message(),
              HasSubstr("token 128 is outside the vocabulary of 128"));
  EXPECT_THAT(generator.Add(1, PromptOf(1, 256), Sampling(1, 1)).message(),
              HasSubstr("the prompt has 256 tokens; expected fewer than the 256 positions"));
  EXPECT_THAT(generator.Add(1, {1}, Sampling(1, 100)).message(), HasSubstr("kv_cache_tokens = 64"));
  EXPECT_THAT(generator.Add(1, {1}, Sampling(1, 0)).message(), HasSubstr("max_tokens = 0"));
  EXPECT_EQ(generator.waiting(), 0);
}

TEST(GeneratorTest, BrokenWeightsEndSequencesWithAnError) {
  const auto model = GoldenModel("qwen2_tiny");
  {
    const at::NoGradGuard no_grad;
    at::Tensor(model->weights().final_norm_D).fill_(std::numeric_limits<float>::quiet_NaN());
  }
  Generator generator(*model, {});
  ASSERT_TRUE(generator.Add(1, {5, 6}, Sampling(1, 10)).ok());
  EXPECT_EQ(RunAll(generator).at(1).finish_reason, FinishReason::kError);
}

TEST(GeneratorTest, Bfloat16LogprobsAreCloseToTheLearners) {
  const auto model = GoldenModel("qwen2_untied", ModelDtype::kBfloat16);
  Generator generator(*model, {});
  const auto prompt = PromptOf(3, 30);
  ASSERT_TRUE(generator.Add(1, prompt, Sampling(1, 40)).ok());
  const double worst = TeacherForcedError(*model, prompt, RunAll(generator).at(1), 0.8);
  RecordProperty("worst_difference", std::to_string(worst));
  EXPECT_LT(worst, 0.03);  // hidden states are rounded at other places; logits are not
}

// On devices without a layout of their own for small batches, the decoder holds the weights once.
TEST(GeneratorTest, TheDecoderReadsPlainWeightsWhereTheyAre) {
  const PortableOnly portable;
  const auto model = GoldenModel("qwen2_untied");
  std::int64_t weights = 0;
  for (const auto& [name, tensor] : model->parameters())
    weights += static_cast<std::int64_t>(tensor.nbytes());
  const LiveBytes bytes;
  const CachedDecoder decoder(*model);
  EXPECT_LT(bytes.now(), weights / 4);  // the tables of the rotations
}

// In one pass and in parts, beside a sequence of the same prompt that asks for nothing.
TEST(GeneratorTest, LogProbsOfThePromptAreThoseOfTheLearner) {
  const auto model = GoldenModel("qwen2_tiny");
  for (const std::int32_t length : {1, 2, 90}) {
    const auto prompt = PromptOf(3, length);
    Generator generator(*model, {.max_running = 4, .kv_cache_tokens = 1024});
    ASSERT_TRUE(generator.Add(0, prompt, Sampling(5, 4)).ok());
    ASSERT_TRUE(generator.Step().empty());
    ASSERT_TRUE(
        generator
            .Add(1, prompt, Sampling(5, 4), nullptr, {}, {.penalties = {}, .prompt_logprobs = 3})
            .ok());
    const auto done = RunAll(generator);
    EXPECT_EQ(done.at(1).token_ids, done.at(0).token_ids);
    EXPECT_TRUE(done.at(0).prompt_logprobs.empty());
    const std::vector<PromptLogprob>& scores = done.at(1).prompt_logprobs;
    ASSERT_EQ(std::ssize(scores), length - 1);
    GeneratedSequence scored;
    scored.token_ids.assign(prompt.begin() + 1, prompt.end());
    for (const PromptLogprob& score : scores) {
      scored.logprobs.push_back(score.logprob);
      const auto i = scored.logprobs.size() - 1;
      ASSERT_EQ(score.top.size(), 3U);
      EXPECT_EQ(score.rank <= 3, score.logprob >= score.top[2].logprob);
      EXPECT_EQ(score.rank == 1, score.top[0].token == scored.token_ids[i]);
    }
    EXPECT_LT(TeacherForcedError(*model, {prompt[0]}, scored, 1), 1e-4);
  }
}

TEST(GeneratorTest, AScoredPromptIsScoredAgainUnderNewWeights) {
  const auto model = GoldenModel("qwen2_tiny");
  Generator generator(*model, {.max_running = 1, .kv_cache_tokens = 1024});
  const auto add = [&](std::uint64_t key) {
    ASSERT_TRUE(generator
                    .Add(key, PromptOf(3, 20), Sampling(key, 8), nullptr, {},
                         {.penalties = {}, .top_logprobs = 2, .prompt_logprobs = 0})
                    .ok());
  };
  add(0);
  add(1);
  ASSERT_TRUE(generator.Step().empty());
  Scale(*model, 1.05);
  generator.WeightsChanged();
  const auto done = RunAll(generator);
  EXPECT_EQ(done.at(0).prompt_logprobs[5].logprob, done.at(1).prompt_logprobs[5].logprob);
  EXPECT_TRUE(done.at(0).prompt_logprobs[5].top.empty());
  for (const auto& [key, sequence] : done) {
    ASSERT_EQ(sequence.top_logprobs.size(), sequence.token_ids.size());
    for (const auto& top : sequence.top_logprobs) EXPECT_GE(top[0].logprob, top[1].logprob);
  }
}

TEST(GeneratorTest, APenaltyChangesTheDistributionThatIsSampled) {
  const auto model = GoldenModel("qwen2_tiny");
  Generator generator(*model, {.max_running = 4, .kv_cache_tokens = 1024});
  const auto prompt = PromptOf(3, 20);
  ASSERT_TRUE(generator.Add(0, prompt, Sampling(5, 40, 0)).ok());
  ASSERT_TRUE(generator
                  .Add(1, prompt, Sampling(5, 40, 0), nullptr, {},
                       {.penalties = {.frequency = 2}, .top_logprobs = 1})
                  .ok());
  const auto done = RunAll(generator);
  const auto distinct = [&](std::uint64_t key) {
    const auto& tokens = done.at(key).token_ids;
    return std::set<std::int32_t>(tokens.begin(), tokens.end()).size();
  };
  EXPECT_GT(distinct(1), distinct(0));
  EXPECT_EQ(done.at(0).token_ids[0], done.at(1).token_ids[0]) << "there is nothing to penalize yet";
  for (std::size_t i = 0; i < 40; ++i)
    EXPECT_EQ(done.at(1).top_logprobs[i][0].logprob, done.at(1).logprobs[i]);
}

}  // namespace
}  // namespace buttress
