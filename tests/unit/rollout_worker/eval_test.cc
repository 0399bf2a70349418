#include "rollout_worker/evaluation/eval.h"

#include <gmock/gmock.h>
#include <torch/types.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/prepare/new_model.h"
#include "lib/base/os/file.h"
#include "lib/policy/decode/generator.h"
#include "lib/policy/transformer.h"
#include "lib/tokenizer/tokenizer.h"
#include "rollout_worker/evaluation/local_models.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

constexpr std::int32_t kMaxTokens = 16;
const std::vector<std::string> kPrompts = {"1+2=", "3+3=", "7=", "5+5+5=", "=", "12+21="};

class EvalTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = (std::filesystem::path(::testing::TempDir()) / ("eval_" + std::to_string(::getpid())))
                  .string();
    std::filesystem::remove_all(folder_);
    NewModelOptions model;
    model.characters = "0123456789+=";
    model.layers = 1;
    model.hidden = 32;
    model.heads = 1;
    model.intermediate = 64;
    model.max_positions = 32;
    ASSERT_TRUE(WriteNewModel(model, Model()).ok());
    auto config = LoadModelConfig(Model());
    ASSERT_TRUE(config.ok()) << config.status().ToString();
    config->initializer_range = 0.5;  // so that prompts lead to different answers
    const auto random = Transformer::Random(*config, ModelDtype::kFloat32, {}, 5);
    ASSERT_TRUE(random.ok());
    ASSERT_TRUE(SaveModelFolder(**random, Model(), Model()).ok());
    options_.model.path = Model();
    options_.prompts = JoinPath(folder_, "prompts.jsonl");
    options_.reward.verifier = "exact";
    options_.sampling.temperature = 0;
    options_.sampling.max_tokens = kMaxTokens;
    // A digit ends an answer, so that none is cut off: what is cut off counts as wrong.
    for (char digit = '0'; digit <= '9'; ++digit) options_.sampling.stop.emplace_back(1, digit);
    options_.sampling.include_stop = true;
  }

  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Model() const { return JoinPath(folder_, "model"); }

  // What the model answers greedily, by plain forward passes over the whole text.
  std::string Answer(const std::string& prompt) const {
    const auto model = Transformer::Load(Model(), ModelDtype::kFloat32, {});
    const auto tokenizer = Tokenizer::Load(Model());
    const auto encoded = (*tokenizer)->Encode(prompt);
    std::vector<std::int64_t> tokens(encoded->begin(), encoded->end());
    std::string answer;
    const at::NoGradGuard no_grad;
    for (std::int32_t t = 0; t < kMaxTokens; ++t) {
      const auto length = static_cast<std::int64_t>(tokens.size());
      const at::Tensor hidden =
          (*model)->Hidden(torch::tensor(tokens, torch::kInt64), std::span(&length, 1));
      tokens.push_back(
          (*model)->Logits(hidden).select(0, length - 1).argmax().item<std::int64_t>());
      const auto token = static_cast<std::int32_t>(tokens.back());
      answer += (*tokenizer)->TokenBytes(token);
      if (token == (*tokenizer)->eos_token_id() || (!answer.empty() && std::isdigit(answer.back())))
        break;
    }
    return answer;
  }

  void WritePrompts(const std::vector<std::string>& answers) const {
    std::string text;
    for (std::size_t i = 0; i < answers.size(); ++i) {
      text += nlohmann::json{{"prompt", kPrompts[i]}, {"answer", answers[i]}}.dump() + "\n";
    }
    ASSERT_TRUE(WriteFileAtomic(options_.prompts, text).ok());
  }

  std::string folder_;
  EvalOptions options_;
};

TEST_F(EvalTest, AccuracyIsTheShareOfAnswersThatTheModelGives) {
  std::vector<std::string> answers;
  for (const std::string& prompt : kPrompts) answers.push_back(Answer(prompt));
  answers[1] = "no digit says this";
  answers[4] = "nor this";
  WritePrompts(answers);
  const auto result = Evaluate(options_, &kLocalModels);
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  EXPECT_EQ(result->prompts, 6);
  EXPECT_EQ(result->correct, 4);
  EXPECT_EQ(result->wrong, 2);
  EXPECT_EQ(result->unscorable, 0);
  EXPECT_DOUBLE_EQ(result->accuracy(), 4.0 / 6.0);

  options_.limit = 2;
  const auto first_two = Evaluate(options_, &kLocalModels);
  ASSERT_TRUE(first_two.ok());
  EXPECT_EQ(first_two->prompts, 2);
  EXPECT_EQ(first_two->correct, 1);
}

TEST_F(EvalTest, AnswersEndAtStopStringsAndNotBeforeMinTokens) {
  std::vector<std::string> answers;
  for (const std::string& prompt : kPrompts) answers.push_back(Answer(prompt));
  WritePrompts(answers);
  const auto with_stop = Evaluate(options_, &kLocalModels);
  ASSERT_TRUE(with_stop.ok()) << with_stop.status().ToString();
  EXPECT_EQ(with_stop->correct, 6);
  EXPECT_EQ(with_stop->truncated, 0);

  options_.sampling.include_stop = false;
  const auto without = Evaluate(options_, &kLocalModels);
  ASSERT_TRUE(without.ok()) << without.status().ToString();
  EXPECT_EQ(without->tokens, with_stop->tokens);
  EXPECT_EQ(without->correct, 0);

  options_.sampling.min_tokens = kMaxTokens;
  const auto whole = Evaluate(options_, &kLocalModels);
  ASSERT_TRUE(whole.ok()) << whole.status().ToString();
  EXPECT_EQ(whole->tokens, 6 * kMaxTokens);
  EXPECT_EQ(whole->truncated, 6);
}

// The model has 32 positions.
TEST_F(EvalTest, APromptThatIsTooLongForTheModelIsLeftOutAndACompletionIsCut) {
  std::string text;
  for (const int tokens : {4, 30, 31, 32, 40})
    text += nlohmann::json{{"prompt", std::string(tokens, '+')}, {"answer", "none"}}.dump() + "\n";
  ASSERT_TRUE(WriteFileAtomic(options_.prompts, text).ok());
  options_.sampling.min_tokens = kMaxTokens;  // so that no digit ends a completion
  const auto result = Evaluate(options_, &kLocalModels);
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  EXPECT_EQ(result->prompts, 3);
  EXPECT_EQ(result->completions, 3);
  EXPECT_EQ(result->truncated, 3);
  EXPECT_EQ(result->tokens, 16 + 2 + 1);
}

TEST_F(EvalTest, TheCommandWritesItsResultAsJson) {
  std::vector<std::string> answers(kPrompts.size(), "none");
  answers[0] = Answer(kPrompts[0]);
  WritePrompts(answers);
  const std::string config = JoinPath(folder_, "run.yaml");
  ASSERT_TRUE(WriteFileAtomic(config,
                              "run: {data: {prompts: p}, model: {path: m}, sampling: {stop: "
                              "['0', '1', '2', '3', '4', '5', '6', '7', '8', '9'], "
                              "include_stop: true}}\n")
                  .ok());
  const std::string out = JoinPath(folder_, "result.json");
  std::vector<std::string> words = {
      "eval",       config,  "--model",   Model(), "--prompts",    options_.prompts,
      "--verifier", "exact", "--threads", "1",     "--max-tokens", std::to_string(kMaxTokens),
      "--json",     "--out", out};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  ASSERT_EQ(RunEval(static_cast<int>(argv.size()), argv.data(), &kLocalModels), 0);
  const auto json = nlohmann::json::parse(*ReadFile(out));
  EXPECT_EQ(json["prompts"], 6);
  EXPECT_EQ(json["correct"], 1);
  EXPECT_DOUBLE_EQ(json["accuracy"].get<double>(), 1.0 / 6.0);
}

TEST_F(EvalTest, SeveralCompletionsGivePassAtK) {
  WritePrompts(std::vector<std::string>(kPrompts.size(), Answer(kPrompts[0])));
  options_.sampling.temperature = 1;
  options_.completions = 8;
  const auto result = Evaluate(options_, &kLocalModels);
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  EXPECT_EQ(result->prompts, 6);
  EXPECT_EQ(result->completions, 48);
  EXPECT_EQ(result->correct + result->wrong, 48);
  // The only prompts are these six, so the mean over them is the accuracy over all completions.
  EXPECT_NEAR(result->scores.Avg().mean, result->accuracy(), 1e-12);
  EXPECT_NEAR(result->scores.PassAt(1).mean, result->accuracy(), 1e-12);
  EXPECT_GE(result->scores.PassAt(8).mean, result->scores.PassAt(1).mean);
  EXPECT_EQ(result->scores.PassAt(8).prompts, 6);
  EXPECT_GT(result->correct, 0);
  EXPECT_LT(result->correct, 48);  // completions of a prompt differ

  const auto again = Evaluate(options_, &kLocalModels);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->correct, result->correct);
}

TEST_F(EvalTest, AnEvaluationContinuesWhereItWasStopped) {
  std::vector<std::string> answers(kPrompts.size(), Answer(kPrompts[0]));
  WritePrompts(answers);
  options_.sampling.temperature = 1;
  options_.completions = 4;
  const auto whole = Evaluate(options_, &kLocalModels);
  ASSERT_TRUE(whole.ok()) << whole.status().ToString();

  options_.results = JoinPath(folder_, "results.jsonl");
  options_.limit = 4;
  ASSERT_TRUE(Evaluate(options_, &kLocalModels).ok());
  // A process that is killed leaves part of a line.
  std::string text = *ReadFile(options_.results);
  ASSERT_EQ(std::ranges::count(text, '\n'), 5);
  ASSERT_TRUE(WriteFileAtomic(options_.results, text.substr(0, text.size() - 20)).ok());
  options_.limit = 0;
  const auto continued = Evaluate(options_, &kLocalModels);
  ASSERT_TRUE(continued.ok()) << continued.status().ToString();
  EXPECT_EQ(continued->prompts, 6);
  EXPECT_EQ(continued->completions, 24);
  EXPECT_EQ(continued->tokens, whole->tokens);
  EXPECT_EQ(continued->scores.ByRow(), whole->scores.ByRow());

  // Nothing is left to do: no prompt is added to the file.
  text = *ReadFile(options_.results);
  EXPECT_EQ(std::ranges::count(text, '\n'), 7);
  const auto again = Evaluate(options_, &kLocalModels);
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(again->scores.ByRow(), whole->scores.ByRow());
  EXPECT_EQ(again->seconds, ReadEvalRecord(options_.results)->seconds);
  EXPECT_EQ(*ReadFile(options_.results), text);

  answers[3] = "another";
  WritePrompts(answers);
  EXPECT_THAT(Evaluate(options_, &kLocalModels).status().message(),
              HasSubstr("prompts_sha256 is "));
  WritePrompts(std::vector<std::string>(kPrompts.size(), Answer(kPrompts[0])));
  options_.sampling.seed = 9;
  EXPECT_THAT(Evaluate(options_, &kLocalModels).status().message(), HasSubstr("seed is "));
}

TEST_F(EvalTest, AFolderOfARunThatIsNoModelIsNamed) {
  options_.model.path = JoinPath(folder_, "run");
  for (const auto& [file, fix] : {std::pair("model/config.json", "is a run; name its model"),
                                  std::pair("manifest.json", "name a copy that has config.json"),
                                  std::pair("checkpoint.json", "is a checkpoint, whose weights")}) {
    const std::string path = JoinPath(options_.model.path, file);
    ASSERT_TRUE(MakeFolders(std::filesystem::path(path).parent_path()).ok());
    ASSERT_TRUE(WriteFileAtomic(path, "{}").ok());
    EXPECT_THAT(Evaluate(options_, &kLocalModels).status().message(), HasSubstr(fix));
  }
}

TEST_F(EvalTest, SeveralGreedyCompletionsAreRefused) {
  std::vector<std::string> words = {"eval",      "--model",        Model(),
                                    "--prompts", options_.prompts, "--verifier",
                                    "exact",     "--completions",  "4"};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  EXPECT_EQ(RunEval(static_cast<int>(argv.size()), argv.data(), &kLocalModels), 2);
}

TEST_F(EvalTest, NamingNoVerifierIsAConfigurationError) {
  std::vector<std::string> words = {"eval", "--model", Model(), "--prompts", options_.prompts};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  EXPECT_EQ(RunEval(static_cast<int>(argv.size()), argv.data(), &kLocalModels), 2);
}

}  // namespace
}  // namespace buttress
