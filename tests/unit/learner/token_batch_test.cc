#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "learner/step/micro_batch.h"
#include "tests/support/named_gradients.h"
#include "tests/support/test_group.h"
#include "tests/unit/learner/small_model.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;

using Tokens = std::vector<std::int32_t>;

constexpr PassOptions kOptions = {0.9, EntropyMode::kNone};

TEST(TokenBatchTest, CompletionsShareTheRowsOfTheirPromptAndKeepTheirLogprobs) {
  const auto model = SmallModel();
  const std::vector<std::pair<Tokens, std::vector<Tokens>>> groups = {
      {{1, 2, 3}, {{4, 5, 6}, {7}, {8, 9}}}, {{1, 2}, {{3}, {3, 4}}}, {{5}, {{6, 7, 8, 9}}}};
  const std::vector<TokenSpan> middle = {{0, 1}, {2, 3}};
  TokenBatch together;
  std::vector<at::Tensor> alone;
  const at::NoGradGuard no_grad;
  for (const auto& [prompt, completions] : groups) {
    for (const Tokens& completion : completions) {
      const auto spans = completion.size() == 3 ? middle : std::vector<TokenSpan>();
      TokenBatch one;
      one.Add(prompt, completion, spans);
      alone.push_back(one.Run(*model, kOptions).output().logprobs_M);
      together.Add(prompt, completion, spans);
    }
  }
  EXPECT_EQ(together.input_tokens(), 3 + 2 + 0 + 1 + 2 + 0 + 1 + 1 + 3);
  const at::Tensor logprobs_M = together.Run(*model, kOptions).output().logprobs_M;
  const at::Tensor expected_M = at::cat(alone);
  ASSERT_EQ(logprobs_M.numel(), expected_M.numel());
  EXPECT_LT((logprobs_M - expected_M).abs().max().item<double>(), 1e-5);
}

// Gradients of the sum of the log-probs of all trained tokens.
std::map<std::string, at::Tensor> GradientsOf(Transformer& model,
                                              const std::vector<TokenBatch>& batches) {
  NamedGradients gradients(model);
  for (const TokenBatch& batch : batches) {
    ModelPass pass = batch.Run(model, {0.9, EntropyMode::kNone});
    pass.Backward(pass.GradientOf(pass.output().logprobs_M.sum()), gradients);
  }
  return gradients.sums;
}

TEST(TurnsTest, TokensOfOthersHaveNoGradientAndAreContext) {
  const auto model = SmallModel();
  const Tokens prompt = {1, 2}, answers = {3, 4, 9, 8, 7, 5, 6};  // 9 8 7 are of a tool
  TokenBatch conversation, first, second;
  conversation.Add(prompt, answers, std::vector<TokenSpan>{{0, 2}, {5, 7}});
  first.Add(prompt, Tokens{3, 4}, {});
  second.Add(Tokens{1, 2, 3, 4, 9, 8, 7}, Tokens{5, 6}, {});
  EXPECT_EQ(conversation.trained_tokens(), 4);
  const auto together = GradientsOf(*model, {conversation});
  const auto apart = GradientsOf(*model, {first, second});
  ASSERT_EQ(together.size(), apart.size());
  for (const auto& [name, gradient] : together) {
    EXPECT_LT((gradient - apart.at(name)).abs().max().item<double>(), 1e-5) << name;
    EXPECT_GT(gradient.abs().max().item<double>(), 0) << name;
  }
}

// Two episodes: of turns [0, 2) and [4, 5), and of the turn [0, 2) behind which a tool spoke.
FetchedGroup Episodes() {
  FetchedGroup fetched{NewGroup(1)};
  v1::Group& group = fetched.group;
  AppendTokens(group, Tokens{3, 4, 9, 8, 5}, std::vector<float>{-1, -2, 0, 0, -3},
               FinishReason::kStop);
  AppendReward(*group.mutable_head(), Outcome::kCorrect, 1, 1);
  AppendTokens(group, Tokens{3, 5, 9}, std::vector<float>{-1, -4, 0}, FinishReason::kStop);
  AppendReward(*group.mutable_head(), Outcome::kWrong, 0, 0);
  for (const auto& [i, tokens] : {std::pair{0, TokenSpan{0, 2}}, {0, {4, 5}}, {1, {0, 2}}}) {
    v1::Turn& turn = *group.add_turns();
    turn.set_completion(i);
    turn.set_begin(tokens.begin);
    turn.set_end(tokens.end);
    AddTrainedSpan(group, i, tokens);
  }
  for (const std::int32_t turns : {2, 1}) group.mutable_head()->add_turns(turns);
  for (const double reward : {0.25, 0.75, 0.0}) group.mutable_head()->add_turn_rewards(reward);
  for (int i = 0; i < 2; ++i) group.mutable_head()->add_episode_ends(v1::EPISODE_END_DONE);
  EXPECT_TRUE(CheckGroup(group).ok()) << CheckGroup(group).message();
  return fetched;
}

StepState StateOf(FetchedGroup fetched) {
  StepState state;
  state.groups.push_back(std::move(fetched));
  state.assignment.update_of_row = state.assignment.micro_batch = {0, 0};
  state.assignment.advantages = {0.5, -0.5};
  state.assignment.token_weights = {0.1, 0.2};
  return state;
}

TEST(TurnsTest, OnlyTrainedTokensAreComparedAndWeighed) {
  StepState state = StateOf(Episodes());
  const MicroBatch batch = GatherMicroBatch(state, 0, 0);
  EXPECT_EQ(batch.tokens.trained_tokens(), 5);
  EXPECT_THAT(batch.lengths, ElementsAre(3, 2));
  EXPECT_THAT(batch.sampler_logprobs, ElementsAre(-1, -2, -3, -1, -4));
  EXPECT_THAT(batch.advantages, ElementsAre(0.5F, 0.5F, 0.5F, -0.5F, -0.5F));
  EXPECT_THAT(batch.weights, ElementsAre(0.1F, 0.1F, 0.1F, 0.2F, 0.2F));
  StepSums sums;
  sums.AddGroup(state.groups[0].group);
  EXPECT_EQ(sums[StepSums::kSampledTokens], 5);
  EXPECT_EQ(sums[StepSums::kSampledNats], 11);
}

TEST(TurnsTest, EveryTurnHasItsAdvantage) {
  StepState state = StateOf(Episodes());
  state.assignment.turn_offsets = {0, 2, 3};
  state.assignment.turn_advantages = {1, 2, 3};
  EXPECT_THAT(GatherMicroBatch(state, 0, 0).advantages, ElementsAre(1, 1, 2, 3, 3));
  // Tokens of an old version at the beginning of the first turn are not trained.
  v1::Group& group = state.groups[0].group;
  group.mutable_trained_spans(0)->set_begin(1);
  EXPECT_THAT(GatherMicroBatch(state, 0, 0).advantages, ElementsAre(1, 2, 3, 3));
  group.mutable_trained_spans()->DeleteSubrange(0, 1);
  EXPECT_THAT(GatherMicroBatch(state, 0, 0).advantages, ElementsAre(2, 3, 3));
}

}  // namespace
}  // namespace buttress
