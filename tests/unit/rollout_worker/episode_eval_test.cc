// Evaluations whose completions are episodes: of a scripted sampler, whose every count is known,
// and of a model with random weights that plays a game.
#include <gmock/gmock.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/prepare/new_model.h"
#include "lib/base/os/file.h"
#include "lib/measure/eval_files.h"
#include "lib/policy/transformer.h"
#include "rollout_worker/evaluation/episode_sampler.h"
#include "rollout_worker/evaluation/evaluator.h"
#include "rollout_worker/evaluation/local_models.h"
#include "rollout_worker/evaluation/probe_report.h"
#include "tests/support/chat_tokenizer.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

std::string Call(const std::string& tool, const std::string& expression) {
  return "<tool_call>\n" +
         nlohmann::ordered_json{{"name", tool}, {"arguments", {{"expression", expression}}}}
             .dump() +
         "\n</tool_call>";
}

// Answers with what `script` says to the text of the prompt.
class ScriptedSampler : public EvalSampler {
 public:
  using Script = std::function<Result<std::string>(const std::string& prompt)>;

  ScriptedSampler(const Tokenizer& tokenizer, Script script)
      : tokenizer_(tokenizer), script_(std::move(script)) {}

  Status Add(std::uint64_t key, const Prompt& prompt, const SamplingParams&) override {
    if (prompt.token_ids.size() > 2000) return OutOfRange("the prompt is too long");
    keys_.emplace_back(key, *tokenizer_.Decode(prompt.token_ids, SpecialTokens::kKeep));
    return OkStatus();
  }

  Result<std::vector<SampledCompletion>> Step() override {
    std::vector<SampledCompletion> completions;
    for (const auto& [key, prompt] : std::exchange(keys_, {})) {
      BUTTRESS_ASSIGN_OR_RETURN(const std::string text, script_(prompt));
      SampledCompletion& one = completions.emplace_back();
      one.key = key;
      one.token_ids = *tokenizer_.Encode(text);
      one.token_ids.push_back(tokenizer_.AddedTokenId("<|im_end|>"));
      one.finish_reason = FinishReason::kStop;
      one.tokens = static_cast<std::int64_t>(one.token_ids.size());
    }
    return completions;
  }

  std::int64_t open() const override { return static_cast<std::int64_t>(keys_.size()); }

  bool only_texts() const override { return false; }

 private:
  const Tokenizer& tokenizer_;
  const Script script_;
  std::vector<std::pair<std::uint64_t, std::string>> keys_;
};

class ToolsEvalTest : public ::testing::Test {
 protected:
  ToolsEvalTest() : tokenizer_(TokenizerOfFamily("qwen2_5")) {
    config_.run.env.kind = EnvKind::kBuiltin;
    config_.run.env.max_turns = 4;
    config_.run.env.max_tool_calls = 3;
    config_.run.reward.verifier = "exact";
    sampling_.stop_token_ids = {tokenizer_->AddedTokenId("<|im_end|>")};
    sampling_.max_tokens = 256;
  }

  Result<EvalResult> Run(const std::vector<std::string>& prompts, std::int64_t completions,
                         ScriptedSampler::Script script) {
    ScriptedSampler below(*tokenizer_, std::move(script));
    const auto sampler = MakeEpisodeSampler(config_, *tokenizer_, completions, below);
    if (!sampler.ok()) return sampler.status();
    EvalInputs inputs;
    inputs.rows = static_cast<std::int64_t>(prompts.size());
    inputs.read = [&](std::int64_t row) -> Result<Prompt> {
      const std::string& text = prompts[static_cast<std::size_t>(row)];
      return Prompt{std::to_string(row), "", *tokenizer_->Encode(text), "42",
                    nlohmann::json{{"prompt", text}}.dump()};
    };
    inputs.verifiers = *VerifierSet::Make(config_.run.reward);
    inputs.on_scored = [this](const EvalPrompt& prompt) { scored_.push_back(prompt); };
    return RunEvaluation(inputs, sampling_, completions, config_.run.reward, *tokenizer_,
                         **sampler);
  }

  const std::unique_ptr<Tokenizer> tokenizer_;
  RunConfig config_;
  SamplingParams sampling_;
  std::vector<EvalPrompt> scored_;
};

TEST_F(ToolsEvalTest, EpisodesAreCountedByTheirTurnsCallsAndEnds) {
  const auto result =
      Run({"right", "wrong", "unknown", "forever", std::string(4000, '?')}, 2,
          [](const std::string& prompt) -> Result<std::string> {
            const bool heard = prompt.find("<tool_response>") != std::string::npos;
            if (prompt.find("forever") != std::string::npos) return Call("calculator", "1");
            if (heard) return std::string(prompt.find("\n42\n") != std::string::npos ? "42" : "?");
            if (prompt.find("unknown") != std::string::npos) return Call("abacus", "6*7");
            return Call("calculator", prompt.find("right") != std::string::npos ? "6*7" : "6*8");
          });
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  EXPECT_EQ(result->prompts, 5);
  EXPECT_EQ(result->completions, 10);
  EXPECT_EQ(result->correct, 2);
  EXPECT_EQ(result->wrong, 6);
  EXPECT_EQ(result->unscorable, 2) << "the prompt without room";
  EXPECT_EQ(result->accuracy(), 0.25);
  EXPECT_EQ(result->scores.PassAt(2).mean, 0.25);
  EXPECT_EQ(result->scores.PassAt(2).prompts, 4);
  const EpisodeTotals& episodes = result->episodes;
  EXPECT_EQ(episodes.episodes, 10);
  // Two turns each of the first three; the fourth call of "forever" is beyond the limit of three.
  EXPECT_EQ(episodes.turns, 2 * (2 + 2 + 2 + 4));
  EXPECT_EQ(episodes.tool_calls, 2 * (1 + 1 + 1 + 4));
  EXPECT_EQ(episodes.failed_tool_calls, 2);
  EXPECT_THAT(episodes.ends,
              UnorderedElementsAre(Pair("done", 6), Pair("tools", 2), Pair("failed", 2)));
  EXPECT_EQ(episodes.at_limit(), 2);
  for (const EvalPrompt& prompt : scored_) {
    ASSERT_EQ(prompt.completions.size(), 2U);
    EXPECT_TRUE(prompt.completions[0].episode);
    EXPECT_GT(prompt.completions[0].tokens + (prompt.row == 4 ? 1 : 0), 0);
  }
}

TEST_F(ToolsEvalTest, ASamplerThatFailsEndsTheEvaluationWithItsError) {
  const auto result = Run({"a", "b"}, 1, [](const std::string&) -> Result<std::string> {
    return InvalidArgument("no such model");
  });
  EXPECT_THAT(result.status().message(), HasSubstr("no such model"));
  EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
}

TEST_F(ToolsEvalTest, AnEpisodeOutOfTimeIsUnscorable) {
  config_.run.env.kind = EnvKind::kExec;
  config_.run.env.command = {"/bin/sleep", "60"};
  config_.run.env.timeout_ms = 100;
  const auto result =
      Run({"a"}, 1, [](const std::string&) -> Result<std::string> { return std::string("42"); });
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  EXPECT_EQ(result->unscorable, 1);
  EXPECT_THAT(result->episodes.ends, UnorderedElementsAre(Pair("time", 1)));
  EXPECT_EQ(result->episodes.at_limit(), 0);
}

// Games of a model that says digits at random.
class GuessEvalTest : public ::testing::Test {
 protected:
  void SetUp() override {
    config_.local.out = dir_.path();
    config_.run.model.path = MakeModel("model", 5);
    config_.run.data.held_out = JoinPath(dir_.path(), "held_out.jsonl");
    config_.run.env.kind = EnvKind::kBuiltin;
    config_.run.env.name = BuiltinEnv::kGuess;
    config_.run.env.guess_max = 9;
    config_.run.env.max_turns = 3;
    config_.run.sampling.max_tokens = 1;
    config_.run.reward.verifier = "exact";
    config_.run.eval.every = 10;
    std::string rows;
    for (const char* number : {"3", "5", "7"}) {
      rows += R"({"prompt": [{"role": "user", "content": "1-9"}], "answer": ")" +
              std::string(number) + R"(", "number": )" + number + "}\n";
    }
    ASSERT_TRUE(WriteFileAtomic(config_.run.data.held_out, rows).ok());
  }

  std::string MakeModel(const std::string& name, std::uint64_t seed) const {
    const std::string folder = JoinPath(dir_.path(), name);
    NewModelOptions model;
    model.characters = "0123456789-abcdefghijklmnopqrstuvwxyz ";
    model.chat = true;
    model.layers = 1;
    model.hidden = 32;
    model.heads = 1;
    model.intermediate = 64;
    EXPECT_TRUE(WriteNewModel(model, folder).ok());
    const auto random =
        Transformer::Random(*LoadModelConfig(folder), ModelDtype::kFloat32, {}, seed);
    EXPECT_TRUE(SaveModelFolder(**random, folder, folder).ok());
    return folder;
  }

  EvalOptions Options() const {
    EvalOptions options = EvalOptionsOf(config_);
    options.worker.threads = 1;
    options.sampling.temperature = 1;
    options.completions = 64;
    return options;
  }

  const TempDir dir_;
  RunConfig config_;
};

TEST_F(GuessEvalTest, AGameIsWonOrEndsAtItsLastTurn) {
  const auto result = Evaluate(Options(), &kLocalModels);
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  EXPECT_EQ(result->completions, 3 * 64);
  EXPECT_EQ(result->unscorable, 0);
  EXPECT_GT(result->correct, 0);
  EXPECT_EQ(result->episodes.episodes, 3 * 64);
  EXPECT_THAT(result->episodes.ends,
              UnorderedElementsAre(Pair("done", result->correct), Pair("turns", result->wrong)));
  EXPECT_EQ(result->episodes.at_limit(), result->wrong);
  EXPECT_EQ(result->tokens, result->episodes.turns) << "of one token each";
  EXPECT_EQ(result->raw_reward, static_cast<double>(result->correct));
  EXPECT_GE(result->scores.PassAt(8).mean, result->scores.PassAt(1).mean);
}

TEST_F(GuessEvalTest, AnEvaluationContinuesWhereItWasStopped) {
  EvalOptions options = Options();
  const auto whole = Evaluate(options, &kLocalModels);
  ASSERT_TRUE(whole.ok()) << whole.status().ToString();
  options.results = JoinPath(dir_.path(), "results.jsonl");
  options.limit = 1;
  ASSERT_TRUE(Evaluate(options, &kLocalModels).ok());
  options.limit = 0;
  const auto continued = Evaluate(options, &kLocalModels);
  ASSERT_TRUE(continued.ok()) << continued.status().ToString();
  EXPECT_EQ(continued->scores.ByRow(), whole->scores.ByRow());
  EXPECT_EQ(continued->episodes.turns, whole->episodes.turns);
  EXPECT_EQ(continued->episodes.ends, whole->episodes.ends);
  options.env.max_turns = 2;
  EXPECT_THAT(Evaluate(options, &kLocalModels).status().message(), HasSubstr("env_sha256 is "));
}

TEST_F(GuessEvalTest, TheEvaluatorOfARunKeepsTheMeansOfItsEpisodes) {
  config_.run.eval.samples = 16;
  config_.run.eval.temperature = 1;
  MakeModel("evals/v1.10", 5);
  const Status done = EvaluatePending(config_);
  ASSERT_TRUE(done.ok()) << done.message();
  const std::vector<EvalRow> rows = *ReadEvals(dir_.path());
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].completions, 48);
  ASSERT_TRUE(rows[0].episodes.has_value());
  EXPECT_EQ(rows[0].episodes->turns, static_cast<double>(rows[0].tokens) / 48);
  EXPECT_EQ(rows[0].episodes->tool_calls, 0);
  EXPECT_EQ(rows[0].episodes->failed_tool_calls, 0);
  EXPECT_NEAR(rows[0].episodes->at_limit, 1 - rows[0].accuracy, 1e-12);
}

TEST_F(GuessEvalTest, AProbePlaysThePromptsOfTheRun) {
  ProbeOptions options;
  options.config = config_;
  options.config.run.data.prompts = config_.run.data.held_out;
  options.config.run.data.held_out = "";
  options.config.run.env.max_tokens = 128;
  options.config.run.sampling.group_size = 8;
  options.config.local.worker.threads = 1;
  options.results = JoinPath(dir_.path(), "probe.jsonl");
  const auto facts = RunProbe(options, &kLocalModels);
  ASSERT_TRUE(facts.ok()) << facts.status().ToString();
  ASSERT_EQ(facts->prompts.size(), 3U);
  EXPECT_EQ(facts->gold.tried, 0) << "the game gives the rewards";
  std::int64_t turns = 0;
  for (const ProbedPrompt& prompt : facts->prompts) {
    EXPECT_FALSE(prompt.has_answers);
    ASSERT_EQ(prompt.completions.size(), 16U);
    for (const EvalCompletion& one : prompt.completions) turns += one.episode->turns;
  }
  const ProbeReport report = ReportOf(options.config, *facts);
  EXPECT_NE(report.verdict, ProbeVerdict::kCannotLearn) << report.conclusion;
  EXPECT_GT(report.mixed.mean, 0);
  EXPECT_EQ(report.episodes.episodes, 48);
  EXPECT_EQ(report.turns.mean, static_cast<double>(turns) / 48);
  EXPECT_GT(report.turns.mean, 1);
  EXPECT_EQ(report.tokens.mean, report.turns.mean) << "answers of one token";
  const std::string text = ProbeText(options.config, *facts, report);
  EXPECT_THAT(text, HasSubstr("\nepisodes\n  turns "));
  EXPECT_THAT(text, HasSubstr("not measured of episodes"));
  const auto json = nlohmann::json::parse(ProbeJson(options.config, *facts, report));
  EXPECT_EQ(json["episodes"]["turns"]["mean"], report.turns.mean);
  EXPECT_EQ(json["episodes"]["at_limit"], report.episodes.at_limit());
  options.config.run.env.max_turns = 2;
  EXPECT_THAT(RunProbe(options, &kLocalModels).status().message(), HasSubstr("env_sha256 is "));
}

TEST_F(GuessEvalTest, AModelThatCannotHoldConversationsIsRefused) {
  NewModelOptions model;
  model.characters = "0123456789";
  config_.run.model.path = JoinPath(dir_.path(), "plain");
  ASSERT_TRUE(WriteNewModel(model, config_.run.model.path).ok());
  EXPECT_THAT(Evaluate(Options(), &kLocalModels).status().message(), HasSubstr("no chat template"));
}

}  // namespace
}  // namespace buttress
