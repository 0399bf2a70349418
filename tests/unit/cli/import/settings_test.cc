#include "cli/import/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "lib/config/describe.h"
#include "lib/config/load.h"

namespace buttress {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Pair;

Imported FromText(const ImportSource& source, const std::string& text,
                  const std::vector<std::string>& overrides = {}) {
  const Result<FlatSettings> theirs = ReadForeignSettings(text, overrides);
  EXPECT_TRUE(theirs.ok()) << theirs.status().ToString();
  return Import(source, *theirs);
}

// A run as DAPO's recipe has it.
constexpr const char* kDapo = R"(
data:
  train_files: train.jsonl
  max_prompt_length: 2048
  max_response_length: 20480
  train_batch_size: 512
actor_rollout_ref:
  model: {path: model}
  actor:
    clip_ratio_low: 0.2
    clip_ratio_high: 0.28
    clip_ratio_c: 10.0
    loss_agg_mode: token-mean
    ppo_mini_batch_size: 32
    use_kl_loss: false
    optim: {lr: 1e-6, lr_warmup_steps: 10, weight_decay: 0.1}
  rollout: {n: 16, temperature: 1.0, top_p: 1.0, top_k: -1, gpu_memory_utilization: 0.8}
algorithm:
  adv_estimator: grpo
  filter_groups: {enable: True, max_num_gen_batches: 10, metric: acc}
custom_reward_function: {path: rewards.py, name: compute_score}
reward_model:
  overlong_buffer: {enable: True, len: 4096, penalty_factor: 1.0}
trainer: {total_training_steps: 300, save_freq: 5, secret_of_mine: 1}
)";

TEST(ImportVerl, TheSettingsOfDapoAreCarried) {
  const Imported imported = FromText(VerlSettings(), kDapo);
  const FlatSettings& ours = imported.ours;
  for (const auto& [key, value] : std::map<std::string, std::string>{
           {"run.sampling.group_size", "16"},
           {"run.sampling.max_tokens", "20480"},
           {"run.sampling.top_k", "0"},
           {"run.batch.prompts", "512"},
           {"run.batch.updates", "16"},
           {"run.batch.zero_variance", "resample"},
           {"run.batch.resample.cap", "10"},
           {"run.batch.max_age", "0"},
           {"run.algorithm.advantage", "grpo"},
           {"run.algorithm.clip_low", "0.2"},
           {"run.algorithm.clip_high", "0.28"},
           {"run.algorithm.dual_clip", "10.0"},
           {"run.algorithm.aggregation", "token_mean"},
           {"run.algorithm.overlong.cache", "4096"},
           {"run.optim.beta2", "0.999"},
           {"run.optim.warmup_steps", "10"},
           {"run.optim.weight_decay", "0.1"},
           {"run.reward.verifier", "python:rewards.py:compute_score"},
           {"run.data.answer_field", "reward_model.ground_truth"},
           {"run.checkpoint_interval", "5"},
           {"run.steps", "300"}})
    EXPECT_THAT(ours, Contains(Pair(key, value)));
  EXPECT_FALSE(ours.contains("run.epochs"));
  EXPECT_FALSE(ours.contains("run.algorithm.kl_coef"));
  EXPECT_THAT(imported.notes,
              Contains("not carried: trainer.secret_of_mine: 1: this setting is not known here"));
  EXPECT_THAT(imported.notes, Contains(HasSubstr("gpu_memory_utilization: 0.8: processes and")));
}

TEST(ImportVerl, OverridesReferencesAndKlAreRead) {
  const Imported imported = FromText(
      VerlSettings(), "data: {max_prompt_length: 100, max_response_length: '${data.x}', x: 77}\n",
      {"algorithm.adv_estimator=rloo", "+actor_rollout_ref.actor.use_kl_loss=True",
       "actor_rollout_ref.actor.kl_loss_coef=0.02", "data.max_prompt_length=200"});
  EXPECT_THAT(imported.ours, Contains(Pair("run.sampling.max_tokens", "77")));
  EXPECT_THAT(imported.ours, Contains(Pair("run.data.max_prompt_tokens", "200")));
  EXPECT_THAT(imported.ours, Contains(Pair("run.algorithm.advantage", "rloo")));
  EXPECT_THAT(imported.ours, Contains(Pair("run.algorithm.kl_coef", "0.02")));
  EXPECT_THAT(imported.ours, Contains(Pair("run.algorithm.kl_estimator", "k3")));
  EXPECT_THAT(imported.ours, Contains(Pair("run.algorithm.kl_in", "loss")));
}

TEST(ImportVerl, EpochsEvaluationsAndCheckpointsAreCarried) {
  const std::string text = R"(
data: {val_files: test.jsonl, val_max_samples: 200}
actor_rollout_ref: {rollout: {val_kwargs: {n: 4, do_sample: True, temperature: 0.6}}}
trainer: {total_epochs: 3, test_freq: 20, max_actor_ckpt_to_keep: 5}
)";
  const FlatSettings ours = FromText(VerlSettings(), text).ours;
  for (const auto& [key, value] :
       std::map<std::string, std::string>{{"run.epochs", "3"},
                                          {"run.eval.every", "20"},
                                          {"run.eval.prompts", "200"},
                                          {"run.eval.samples", "4"},
                                          {"run.eval.temperature", "0.6"},
                                          {"run.checkpoints.keep_last", "5"}})
    EXPECT_THAT(ours, Contains(Pair(key, value)));
  EXPECT_FALSE(ours.contains("run.steps"));

  const std::string greedy = "actor_rollout_ref.rollout.val_kwargs.do_sample=False";
  const FlatSettings one = FromText(VerlSettings(), text, {greedy}).ours;
  EXPECT_THAT(one, Contains(Pair("run.eval.every", "20")));
  EXPECT_FALSE(one.contains("run.eval.samples"));

  const Imported bare = FromText(
      VerlSettings(), "{trainer: {test_freq: 5, max_actor_ckpt_to_keep: 1, total_epochs: 15}}");
  EXPECT_FALSE(bare.ours.contains("run.eval.every"));
  EXPECT_THAT(bare.notes, Contains(HasSubstr("trainer.test_freq: 5: there is no data.val_files")));
  EXPECT_THAT(bare.ours, Contains(Pair("run.checkpoints.keep_last", "2")));
  EXPECT_THAT(bare.notes, Contains(HasSubstr("max_actor_ckpt_to_keep: 1 became")));
}

TEST(ImportVerl, WithoutDivisionByStdGrpoIsDrGrpoAndACriticIsNamed) {
  const auto advantage = [](const std::string& override) {
    return FromText(VerlSettings(), "algorithm: {norm_adv_by_std_in_grpo: false}",
                    {"algorithm.adv_estimator=" + override});
  };
  EXPECT_THAT(advantage("grpo").ours, Contains(Pair("run.algorithm.advantage", "dr_grpo")));
  const Imported critic = advantage("gae");
  EXPECT_FALSE(critic.ours.contains("run.algorithm.advantage"));
  EXPECT_THAT(critic.notes, Contains(HasSubstr("algorithm.adv_estimator: gae: there is no such")));
}

TEST(ImportTrl, LossesScalesAndBatchesAreCarried) {
  const Imported imported =
      FromText(TrlSettings(),
               R"({"output_dir": "out", "per_device_train_batch_size": 16, "num_generations": 8,
          "gradient_accumulation_steps": 4, "steps_per_generation": 8, "beta": 0.04,
          "loss_type": "dr_grpo", "scale_rewards": false, "importance_sampling_level": "sequence",
          "epsilon": 0.0003, "epsilon_high": 0.0004, "max_steps": 100, "top_k": -1, "min_p": 0.1,
          "optim": "adafactor"})");
  for (const auto& [key, value] :
       std::map<std::string, std::string>{{"run.batch.prompts", "16"},
                                          {"run.batch.updates", "2"},
                                          {"run.algorithm.advantage", "dr_grpo"},
                                          {"run.algorithm.aggregation", "seq_mean_token_sum_norm"},
                                          {"run.algorithm.loss", "gspo"},
                                          {"run.algorithm.clip_low", "0.0003"},
                                          {"run.algorithm.clip_high", "0.0004"},
                                          {"run.algorithm.kl_coef", "0.04"},
                                          {"run.sampling.group_size", "8"},
                                          {"run.optim.schedule", "linear"},
                                          {"run.steps", "50"}})
    EXPECT_THAT(imported.ours, Contains(Pair(key, value)));
  EXPECT_THAT(imported.notes, Contains("not carried: min_p: 0.1: top_p and top_k only"));
  EXPECT_THAT(imported.notes,
              Contains("nearest: max_steps: 100 optimizer steps became run.steps 50, "
                       "as a step makes 2 of them"));
  EXPECT_THAT(imported.notes,
              Contains("not carried: optim: adafactor: this setting is not known here"));
}

TEST(ImportTrl, EpochsEvaluationsAndCheckpointsAreCarried) {
  const Imported imported = FromText(TrlSettings(), R"(
{num_train_epochs: 1.5, eval_strategy: steps, eval_steps: 25, num_generations_eval: 4,
 temperature: 0.7, save_steps: 50, save_total_limit: 4, load_best_model_at_end: true,
 num_iterations: 2, warmup_steps: 0.1}
)");
  for (const auto& [key, value] :
       std::map<std::string, std::string>{{"run.epochs", "2"},
                                          {"run.eval.every", "13"},
                                          {"run.eval.samples", "4"},
                                          {"run.eval.temperature", "0.7"},
                                          {"run.checkpoint_interval", "25"},
                                          {"run.checkpoints.keep_last", "3"},
                                          {"run.checkpoints.keep_best", "1"}})
    EXPECT_THAT(imported.ours, Contains(Pair(key, value)));
  EXPECT_FALSE(imported.ours.contains("run.steps"));
  EXPECT_FALSE(imported.ours.contains("run.optim.warmup_steps"));
  EXPECT_THAT(imported.notes, Contains("nearest: num_train_epochs: 1.5 became run.epochs 2"));
  EXPECT_THAT(imported.notes,
              Contains("not carried: warmup_steps: 0.1: it is a share of all steps; "
                       "set run.optim.warmup_steps"));
  EXPECT_THAT(imported.notes, Contains(HasSubstr("prompts that run.data.held_out names")));
}

TEST(ImportTrl, WithoutTheirStrategyNothingIsEvaluated) {
  const FlatSettings none = FromText(TrlSettings(), "{eval_steps: 25, max_steps: 10}").ours;
  EXPECT_FALSE(none.contains("run.eval.every"));
  EXPECT_FALSE(none.contains("run.epochs"));
  const Imported epoch = FromText(TrlSettings(), "{eval_strategy: epoch, save_strategy: epoch}");
  EXPECT_THAT(epoch.notes, Contains("not carried: eval_strategy: epoch: set run.eval.every"));
  EXPECT_THAT(epoch.notes, Contains(HasSubstr("not carried: save_strategy: epoch")));
  EXPECT_THAT(epoch.ours, Contains(Pair("run.epochs", "3")));
}

TEST(ImportedSettings, DefaultsAreThoseOfTheTrainer) {
  const FlatSettings trl = FromText(TrlSettings(), "{report_to: tensorboard}").ours;
  EXPECT_THAT(trl, Contains(Pair("run.sampling.max_tokens", "512")));
  EXPECT_THAT(trl, Contains(Pair("local.track.tensorboard", "true")));
  EXPECT_THAT(FromText(VerlSettings(), "{}").ours, Contains(Pair("run.data.over_long", "refuse")));
  EXPECT_THAT(FromText(VerlSettings(), "{data: {filter_overlong_prompts: True}}").ours,
              Contains(Pair("run.data.over_long", "drop")));
}

TEST(ImportedSettings, AreAValidConfiguration) {
  for (Imported imported :
       {FromText(VerlSettings(), kDapo), FromText(TrlSettings(), "{loss_type: grpo}")}) {
    imported.ours.insert({"run.data.prompts", "p.jsonl"});
    imported.ours.insert({"run.model.path", "m"});
    const std::string yaml = PrintImported(imported.ours);
    const Status status = ParseRunConfig(yaml, "imported.yaml", {}).status();
    EXPECT_TRUE(status.ok()) << status.message() << "\n" << yaml;
  }
}

TEST(ImportedSettings, EveryKeyOfTheTablesIsASetting) {
  const std::string described = "\n" + DescribeRunConfig();
  for (const ImportSource* source : {&VerlSettings(), &TrlSettings()}) {
    for (const ImportRow& row : source->rows) {
      std::istringstream keys{std::string(row.ours)};
      for (std::string key; keys >> key;)
        EXPECT_THAT(described, HasSubstr("\n" + key + "  ")) << row.theirs;
    }
  }
}

TEST(ReadForeignSettings, NamesWhatItCannotRead) {
  EXPECT_FALSE(ReadForeignSettings("[1, 2]", {}).ok());
  EXPECT_FALSE(ReadForeignSettings("{a: ", {}).ok());
  EXPECT_THAT(ReadForeignSettings("{}", {"a.b"}).status().message(), HasSubstr("KEY=VALUE"));
}

}  // namespace
}  // namespace buttress
