#include "lib/config/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace buttress {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kGood[] = R"(run:
  data: {prompts: p.jsonl}
  model: {path: m}
)";

std::string ErrorOf(const std::string& text, const std::vector<std::string>& overrides = {}) {
  auto config = ParseRunConfig(text, "b.yaml", overrides);
  EXPECT_FALSE(config.ok());
  EXPECT_EQ(config.status().code(), StatusCode::kInvalidArgument);
  return config.status().message();
}

TEST(LoadTest, DefaultsFillWhatTheFileLeavesOut) {
  auto config = ParseRunConfig(kGood, "b.yaml", {});
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->run.data.prompts, "p.jsonl");
  EXPECT_EQ(config->run.sampling.group_size, 8);
  EXPECT_EQ(config->run.algorithm.eps, 1e-6);
}

TEST(LoadTest, ARankIsStuckNoSoonerThanACollective) {
  std::vector<std::string> set = {"local.learner.collective_timeout_ms=70000",
                                  "local.learner.stuck_timeout_ms=70000"};
  EXPECT_TRUE(ParseRunConfig(kGood, "b.yaml", set).ok()) << ErrorOf(kGood, set);
  set[1] = "local.learner.stuck_timeout_ms=60000";
  EXPECT_THAT(ErrorOf(kGood, set), HasSubstr("local.learner.stuck_timeout_ms = 60000"));
}

TEST(LoadTest, UnknownKeysAreNamedWithLineAndSuggestionAllAtOnce) {
  const std::string error = ErrorOf(
      "run:\n  data: {prompts: p}\n  model: {path: m}\n  optim:\n    warmup_step: 3\n    zzz: "
      "1\nlocal:\n  outt: x\n");
  EXPECT_THAT(
      error,
      HasSubstr("b.yaml:5: run.optim.warmup_step: unknown key; did you mean 'warmup_steps'?"));
  EXPECT_THAT(error,
              HasSubstr("b.yaml:6: run.optim.zzz: unknown key; choose one of: precision, lr"));
  EXPECT_THAT(error, HasSubstr("b.yaml:8: local.outt: unknown key; did you mean 'out'?"));
}

TEST(LoadTest, WrongTypesNameWhatWasExpected) {
  const std::string error = ErrorOf(
      "run:\n  steps: many\n  deterministic: 1\n  data: [a]\n  optim: {lr: fast}\nlocal:\n  "
      "launch: {mpirun_args: x}\n");
  EXPECT_THAT(error, HasSubstr("b.yaml:2: run.steps: expected an integer, found 'many'"));
  EXPECT_THAT(error, HasSubstr("run.deterministic: expected true or false, found '1'"));
  EXPECT_THAT(error, HasSubstr("run.data: expected a section"));
  EXPECT_THAT(error, HasSubstr("run.optim.lr: expected a number, found 'fast'"));
  EXPECT_THAT(error, HasSubstr("local.launch.mpirun_args: expected a list"));
}

TEST(LoadTest, OverridesGetTheSameChecksAsTheFile) {
  auto config = ParseRunConfig(
      kGood, "b.yaml", {"run.optim.lr=1e-5", "local.launch.mpirun_args=[-x, A]", "run.name=a b"});
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->run.optim.lr, 1e-5);
  EXPECT_EQ(config->local.launch.mpirun_args, (std::vector<std::string>{"-x", "A"}));
  EXPECT_EQ(config->run.name, "a b");
  EXPECT_THAT(ErrorOf(kGood, {"run.optim.lrr=1"}),
              HasSubstr("--set: run.optim.lrr: unknown key; did you mean 'lr'?"));
  EXPECT_THAT(ErrorOf(kGood, {"run.algorithm.std=biased"}),
              HasSubstr("--set: run.algorithm.std: 'biased' is unknown"));
  EXPECT_THAT(ErrorOf(kGood, {"run.steps"}), HasSubstr("expected key=value"));
  EXPECT_THAT(ErrorOf(kGood, {"optim.lr=1"}),
              HasSubstr("--set optim.lr=1: unknown key; did you mean 'run.optim.lr'?"));
  EXPECT_THAT(ErrorOf("run:\n  optim: {lr: 1}\n", {"run.optim.lr=abc"}),
              HasSubstr("--set: run.optim.lr: expected a number, found 'abc'"));
  EXPECT_THAT(ErrorOf(kGood, {"run.steps="}),
              HasSubstr("--set: run.steps: expected an integer, found ''"));
  EXPECT_THAT(ErrorOf(kGood, {"run.data.prompts.x=1"}), HasSubstr("is a value, not a section"));
}

TEST(LoadTest, AnEmptyOverrideClearsAText) {
  const auto config =
      ParseRunConfig(kGood, "b.yaml", {"run.data.held_out=x", "run.data.held_out="});
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->run.data.held_out, "");
}

TEST(LoadTest, BrokenRulesAreListedTogether) {
  const std::string error =
      ErrorOf(kGood, {"run.sampling.group_size=1", "run.algorithm.eps=-1",
                      "local.learner.collective=local", "local.launch.learner_ranks=2"});
  EXPECT_THAT(error, HasSubstr("run.sampling.group_size = 1: between 2 and 4096"));
  EXPECT_THAT(error, HasSubstr("run.algorithm.eps = -1: 0 or more"));
  EXPECT_THAT(error, HasSubstr("local.learner.collective = local: is for one rank"));
  EXPECT_THAT(ErrorOf(kGood, {"local.learner.device=cuda"}),
              HasSubstr("local.learner.device = cuda: needs a GPU and NVIDIA's driver"));
  EXPECT_THAT(ErrorOf(kGood, {"run.optim.precision=stochastic"}),
              HasSubstr("run.optim.precision = stochastic: rounds bfloat16 parameters"));
  EXPECT_THAT(ErrorOf(kGood, {"run.deterministic=true"}),
              HasSubstr("run.deterministic = true: needs run.batch.max_age: 0"));
  EXPECT_THAT(ErrorOf(kGood, {"run.algorithm.loss=gpg", "run.batch.max_age=0",
                              "run.async.old_tokens=train"}),
              HasSubstr("run.algorithm.loss = gpg: has no ratio, so tokens of older weights"));
  EXPECT_THAT(ErrorOf(kGood, {"run.deterministic=true", "run.batch.max_age=0",
                              "run.async.old_tokens=mask"}),
              HasSubstr("run.async.old_tokens = mask: is for groups of several versions"));
}

TEST(LoadTest, SamplesOfATruncatedDistributionAreRefused) {
  EXPECT_THAT(ErrorOf(kGood, {"run.sampling.top_p=0.95"}),
              HasSubstr("run.sampling.top_p = 0.95: 1 (off): the learner trains the whole"));
  EXPECT_THAT(ErrorOf(kGood, {"run.sampling.top_k=20"}),
              HasSubstr("run.sampling.top_k = 20: 0 (off): the learner trains the whole"));
}

TEST(LoadTest, ADeterministicRunNeedsAnEngineWithEqualBits) {
  std::vector<std::string> set = {"run.deterministic=true", "run.batch.max_age=0"};
  set.push_back("local.worker.engine=vllm");
  EXPECT_THAT(ErrorOf(kGood, set), HasSubstr("needs local.worker.engine: embedded"));
  set.back() = "local.worker.device=cuda";
  EXPECT_THAT(ErrorOf(kGood, set), HasSubstr("needs local.worker.device: cpu"));
  set.pop_back();
  EXPECT_TRUE(ParseRunConfig(kGood, "b.yaml", set).ok()) << ErrorOf(kGood, set);
}

TEST(LoadTest, AWorkerDrainsBeforeLaunchKillsIt) {
  const std::vector<std::string> longer = {"local.worker.drain_ms=30000"};
  EXPECT_THAT(ErrorOf(kGood, longer), HasSubstr("local.worker.drain_ms = 30000: at most "
                                                "local.launch.stop_timeout_ms"));
  EXPECT_TRUE(
      ParseRunConfig(kGood, "b.yaml", {longer[0], "local.launch.stop_timeout_ms=40000"}).ok());
}

TEST(LoadTest, LengthIsPunishedOnce) {
  const std::string cache = "run.algorithm.overlong.cache=16";
  const std::vector<std::string> both = {cache, "run.reward.verifier=math + 0.5 * overlong",
                                         "run.reward.length.overlong_tokens=64"};
  EXPECT_THAT(ErrorOf(kGood, both), HasSubstr("verifier overlong in run.reward punishes already"));
  EXPECT_TRUE(ParseRunConfig(kGood, "b.yaml", {cache}).ok());
}

TEST(LoadTest, UnknownNamesAreAnsweredWithASuggestionAndTheChoices) {
  const std::string error = ErrorOf(
      "run:\n  data: {prompts: p}\n  model: {path: m}\n  algorithm:\n    advantage: gpro\n    "
      "std: biased\n    loss: [ppo]\n");
  EXPECT_THAT(error, HasSubstr("b.yaml:5: run.algorithm.advantage: 'gpro' is unknown; did you mean "
                               "'grpo'? Choose one of: grpo, dr_grpo, rloo, "));
  EXPECT_THAT(error, HasSubstr("b.yaml:6: run.algorithm.std: 'biased' is unknown; choose one of: "
                               "sample, population, none"));
  EXPECT_THAT(error, HasSubstr("run.algorithm.loss: '[ppo]' is unknown; did you mean 'ppo'?"));
}

TEST(LoadTest, AZeroVariancePolicyMustFitTheEstimator) {
  const auto refused = [](std::vector<std::string> overrides) { return ErrorOf(kGood, overrides); };
  EXPECT_THAT(refused({"run.batch.zero_variance=virtual"}),
              HasSubstr("needs run.algorithm.advantage: avspo"));
  EXPECT_THAT(refused({"run.batch.zero_variance=resample", "run.algorithm.advantage=avspo"}),
              HasSubstr("is there for; use keep"));
  EXPECT_THAT(refused({"run.batch.zero_variance=drop"}),
              HasSubstr("choose one of: keep, mask, resample, virtual"));
  EXPECT_THAT(refused({"run.batch.resample.cap=0"}), HasSubstr("between 1 and 1000"));
  EXPECT_THAT(refused({"run.control.mixed=0.5"}),
              HasSubstr("set run.batch.zero_variance: resample"));
  EXPECT_THAT(refused({"run.batch.zero_variance=resample", "run.control.tokens=9"}),
              HasSubstr("is read with run.control.mixed above 0 alone"));
  EXPECT_THAT(refused({"run.data.selection.mode=vcrl"}),
              HasSubstr("choose one of: none, greso, speed, mopps"));
  EXPECT_TRUE(ParseRunConfig(kGood, "b.yaml",
                             {"run.batch.zero_variance=virtual", "run.algorithm.advantage=avspo"})
                  .ok());
  EXPECT_TRUE(ParseRunConfig(kGood, "b.yaml",
                             {"run.batch.zero_variance=resample", "run.data.selection.mode=greso"})
                  .ok());
}

TEST(LoadTest, UnbiasedDrawsNeedKnownProbabilitiesAndAFixedDenominator) {
  const auto error = [](const std::string& mode, const std::string& denominator) {
    return ErrorOf(kGood, {"run.data.selection.unbiased=true", "run.data.selection.mode=" + mode,
                           "run.batch.denominator=" + denominator});
  };
  for (const char* mode : {"none", "speed", "mopps"})
    EXPECT_THAT(error(mode, "drawn"), HasSubstr("needs run.data.selection.mode: greso"));
  EXPECT_THAT(error("greso", "kept"), HasSubstr("needs run.batch.denominator: drawn"));
  EXPECT_TRUE(ParseRunConfig(kGood, "b.yaml",
                             {"run.data.selection.unbiased=true", "run.data.selection.mode=greso"})
                  .ok());
}

TEST(LoadTest, ChancesOfNoiseAreRates) {
  EXPECT_THAT(ErrorOf(kGood, {"run.reward.noise.false_positive=-0.1"}),
              HasSubstr("run.reward.noise.false_positive = -0.1: between 0 and 1"));
  EXPECT_THAT(ErrorOf(kGood, {"run.reward.noise.false_negative=1.5"}),
              HasSubstr("run.reward.noise.false_negative = 1.5: between 0 and 1"));
  EXPECT_THAT(ErrorOf(kGood, {"run.reward.noise.by=group"}),
              AllOf(HasSubstr("run.reward.noise.by"), HasSubstr("text"), HasSubstr("completion")));
}

TEST(LoadTest, PassAtKNeedsAGroupOfMoreThanK) {
  std::vector<std::string> set = {"run.algorithm.advantage=pass_at_k", "run.sampling.group_size=8",
                                  "run.algorithm.pass_at_k.k=8"};
  EXPECT_THAT(
      ErrorOf(kGood, set),
      HasSubstr("run.algorithm.pass_at_k.k = 8: below run.sampling.group_size, which is 8"));
  set.back() = "run.algorithm.pass_at_k.k=0";
  EXPECT_THAT(ErrorOf(kGood, set), HasSubstr("run.algorithm.pass_at_k.k = 0: 1 or more"));
  set.back() = "run.algorithm.pass_at_k.k=7";
  EXPECT_TRUE(ParseRunConfig(kGood, "b.yaml", set).ok()) << ErrorOf(kGood, set);
}

TEST(LoadTest, TurnsAreComparedByTheirRewardsAlone) {
  std::vector<std::string> set = {"run.env.kind=http", "run.env.url=http://127.0.0.1:1/",
                                  "run.env.credit=turn", "run.algorithm.advantage=opo"};
  EXPECT_THAT(ErrorOf(kGood, set), HasSubstr("run.algorithm.advantage = opo: reads lengths"));
  set.back() = "run.algorithm.loss=kl_cov";
  EXPECT_THAT(ErrorOf(kGood, set), HasSubstr("run.algorithm.loss = kl_cov: marks tokens by"));
  set.back() = "run.algorithm.kl_in=reward";
  EXPECT_THAT(ErrorOf(kGood, set), HasSubstr("run.algorithm.kl_in = reward: loss: with"));
  set.back() = "run.algorithm.advantage=rloo";
  EXPECT_TRUE(ParseRunConfig(kGood, "b.yaml", set).ok()) << ErrorOf(kGood, set);
}

TEST(LoadTest, ThePunishmentOfLengthEndsAtTheLongestConversation) {
  std::vector<std::string> set = {"run.env.kind=http", "run.env.url=http://127.0.0.1:1/",
                                  "run.env.max_tokens=900", "run.algorithm.overlong.length=901"};
  EXPECT_THAT(ErrorOf(kGood, set),
              HasSubstr("run.algorithm.overlong.length = 901: at most run.env.max_tokens"));
  set.back() = "run.algorithm.overlong.length=900";
  EXPECT_TRUE(ParseRunConfig(kGood, "b.yaml", set).ok()) << ErrorOf(kGood, set);
}

TEST(LoadTest, SeveralUpdatesMustFitTheBatchAndTheLoss) {
  EXPECT_THAT(ErrorOf(kGood, {"run.batch.prompts=4", "run.batch.updates=5"}),
              HasSubstr("run.batch.updates = 5: at most the 4 prompts of a step"));
  EXPECT_TRUE(ParseRunConfig(kGood, "b.yaml",
                             {"run.batch.prompts=4", "run.batch.updates=5",
                              "run.batch.mini_batch=completions"})
                  .ok());
  EXPECT_THAT(ErrorOf(kGood, {"run.batch.epochs=0"}), HasSubstr("between 1 and 1000"));
  EXPECT_THAT(ErrorOf(kGood, {"run.batch.kl_stop=0.1"}),
              HasSubstr("batch.updates * batch.epochs is 1"));
  EXPECT_THAT(
      ErrorOf(kGood, {"run.algorithm.loss=gpg", "run.batch.max_age=0", "run.batch.epochs=2"}),
      HasSubstr("every update after the first is biased"));
}

TEST(LoadTest, StopsAreLists) {
  const auto config = ParseRunConfig(
      kGood, "b.yaml",
      {"run.sampling.stop=['</answer>', \"\\n\\n\"]", "run.sampling.stop_token_ids=[7, 2]"});
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->run.sampling.stop, (std::vector<std::string>{"</answer>", "\n\n"}));
  EXPECT_EQ(config->run.sampling.stop_token_ids, (std::vector<std::int64_t>{7, 2}));
  const auto again = ParseRunConfig(PrintRunConfig(*config), "c.yaml", {});
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(again->run.sampling.stop, config->run.sampling.stop);
  EXPECT_EQ(again->run.sampling.stop_token_ids, config->run.sampling.stop_token_ids);
  const std::string error =
      ErrorOf(kGood, {"run.sampling.stop=['']", "run.sampling.stop_token_ids=[-1]"});
  EXPECT_THAT(error, HasSubstr("run.sampling.stop = : a text of a character or more"));
  EXPECT_THAT(error, HasSubstr("run.sampling.stop_token_ids = -1: between 0 and 2147483647"));
}

TEST(LoadTest, LoraNamesMatricesOnce) {
  const auto config =
      ParseRunConfig(kGood, "b.yaml", {"run.lora={rank: 8, targets: [q_proj, down_proj]}"});
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->run.lora.targets, (std::vector{LoraTarget::kQ, LoraTarget::kDown}));
  EXPECT_EQ(config->run.lora.scale(), 2);
  const auto again = ParseRunConfig(PrintRunConfig(*config), "c.yaml", {});
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(again->run.lora.targets, config->run.lora.targets);
  EXPECT_THAT(ErrorOf(kGood, {"run.lora.targets=[q_prj]"}),
              HasSubstr("run.lora.targets: 'q_prj' is unknown; did you mean 'q_proj'?"));
  EXPECT_THAT(ErrorOf(kGood, {"run.lora.targets=[]"}), HasSubstr("name a matrix or more"));
  EXPECT_THAT(ErrorOf(kGood, {"run.lora.targets=[all, q_proj]"}),
              HasSubstr("run.lora.targets = [all, q_proj]: 'all' names every matrix"));
  EXPECT_THAT(ErrorOf(kGood, {"run.lora.targets=[q_proj, q_proj]"}), HasSubstr("appears twice"));
  EXPECT_THAT(ErrorOf(kGood, {"run.lora.rank=-1"}),
              HasSubstr("run.lora.rank = -1: between 0 and 4096"));
  EXPECT_THAT(ErrorOf(kGood, {"run.lora.adapter=DIR"}),
              HasSubstr("run.lora.adapter = DIR: needs run.lora.rank above 0"));
}

TEST(LoadTest, TheVllmEngineNeedsServers) {
  EXPECT_THAT(ErrorOf(kGood, {"local.worker.engine=vllm"}),
              HasSubstr("local.worker.vllm.servers = []: name a server or more"));
  const std::string launch = "local.worker.vllm.launch.";
  EXPECT_TRUE(
      ParseRunConfig(kGood, "b.yaml", {"local.worker.engine=vllm", launch + "binary=vllm"}).ok());
  EXPECT_THAT(ErrorOf(kGood, {launch + "binary=vllm"}),
              HasSubstr("launch.binary = vllm: needs local.worker.engine: vllm"));
  EXPECT_THAT(ErrorOf(kGood, {launch + "gpus=[1, 2, 3]", launch + "tensor_parallel=2"}),
              HasSubstr("launch.tensor_parallel = 2: divides the number of gpus, 3"));
  EXPECT_THAT(ErrorOf(kGood, {launch + "gpus=[1, 1]"}),
              HasSubstr("launch.gpus = 1: counted from 0, each at most once"));
  EXPECT_THAT(ErrorOf(kGood, {launch + "env=[NAME]"}),
              HasSubstr("launch.env = NAME: expected NAME=VALUE"));
  EXPECT_THAT(ErrorOf(kGood, {launch + "args=[--max-num-seqs, '2', --tensor_parallel_size=2]"}),
              HasSubstr("launch.args = --tensor-parallel-size: the run gives it to its servers; "
                        "leave it out: set local.worker.vllm.launch.tensor_parallel"));
  const auto weights = [&](const std::string& way, const std::string& more) {
    return ErrorOf(kGood, {"local.worker.engine=vllm", "local.worker.vllm.servers=['http://a:1']",
                           "local.worker.vllm.weights=" + way, more});
  };
  EXPECT_THAT(weights("lora", "run.lora.rank=0"), HasSubstr("lora needs run.lora"));
  EXPECT_THAT(weights("file", "run.lora.rank=8"), HasSubstr("expected auto or lora"));
  EXPECT_THAT(
      ErrorOf(kGood, {"local.worker.engine=vllm", "local.worker.vllm.servers=[localhost:8000]"}),
      HasSubstr("local.worker.vllm.servers = localhost:8000: expected http://host:port"));
  EXPECT_THAT(ErrorOf(kGood, {"local.worker.engine=vllm",
                              "local.worker.vllm.servers=['http://a:1', 'http://a:1']"}),
              HasSubstr("appears twice"));
  EXPECT_THAT(
      ErrorOf(kGood, {"local.worker.engine=vllm", "local.worker.vllm.servers=['http://a:1']",
                      "run.sampling.temperature=2.5"}),
      HasSubstr("at most 2 with local.worker.engine: vllm"));
  EXPECT_TRUE(
      ParseRunConfig(kGood, "b.yaml",
                     {"local.worker.engine=vllm", "local.worker.vllm.servers=['http://a:1']"})
          .ok());
}

TEST(LoadTest, ServersAndLearnerTakeTurnsOnGpusInRunsThatAreSynchronous) {
  const auto set = [](std::vector<std::string> more) {
    std::vector<std::string> all = {
        "local.worker={engine: vllm, vllm: {launch: {binary: v, gpus: [0], colocate: true}}}",
        "local.learner={device: cuda, collective: nccl}", "run.batch.max_age=0"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  EXPECT_TRUE(ParseRunConfig(kGood, "b.yaml", set({})).ok()) << ErrorOf(kGood, set({}));
  EXPECT_THAT(ErrorOf(kGood, set({"run.batch.max_age=1"})),
              HasSubstr("colocate = true: needs run.batch.max_age: 0"));
  EXPECT_THAT(ErrorOf(kGood, set({"local.launch.workers=2"})),
              HasSubstr("needs local.launch.workers: 1"));
  EXPECT_THAT(ErrorOf(kGood, set({"local.worker.vllm.launch.gpus=[]"})),
              HasSubstr("needs servers that the run starts on GPUs"));
  EXPECT_THAT(ErrorOf(kGood, set({"local.learner={device: cpu, collective: mpi}"})),
              HasSubstr("needs local.learner.device: cuda"));
}

TEST(LoadTest, DuplicateKeysAndInvalidYamlAreRefused) {
  EXPECT_THAT(ErrorOf("run:\n  steps: 1\n  steps: 2\n"), HasSubstr("the key appears twice"));
  EXPECT_THAT(ErrorOf("run: [\n"), HasSubstr("not YAML"));
  EXPECT_THAT(ErrorOf("- 1\n"), HasSubstr("expected the sections 'run' and 'local'"));
}

TEST(LoadTest, APortBeyondLoopbackNeedsCertificateAndToken) {
  for (const char* address : {"0.0.0.0:7000", "[::]:0", "10.0.0.5:7000", "head:7000", ":7000"}) {
    const std::string listen = std::string("local.coordinator.listen='") + address + "'";
    EXPECT_THAT(ErrorOf(kGood, {listen}), HasSubstr("deploy/make-certs.sh makes them")) << address;
    EXPECT_TRUE(ParseRunConfig(kGood, "b.yaml", {listen, "local.security.insecure=true"}).ok())
        << address;
    EXPECT_TRUE(
        ParseRunConfig(kGood, "b.yaml",
                       {listen, "local.security={certificate: c, key: k, ca: a, tokens: t}"})
            .ok());
  }
  for (const char* port : {"coordinator.metrics", "worker.listen", "worker.metrics",
                           "learner.listen", "learner.metrics"}) {
    EXPECT_THAT(ErrorOf(kGood, {std::string("local.") + port + "='0.0.0.0:0'"}), HasSubstr(port));
    EXPECT_TRUE(
        ParseRunConfig(kGood, "b.yaml", {std::string("local.") + port + "='[::1]:0'"}).ok());
  }
}

TEST(LoadTest, SecurityIsCompleteOrAbsent) {
  EXPECT_THAT(
      ErrorOf(kGood, {"local.security={certificate: c, key: k, ca: a}"}),
      HasSubstr("local.security.tokens = : certificate, key, ca and tokens belong together"));
  EXPECT_THAT(
      ErrorOf(kGood, {"local.security={certificate: c, key: k, ca: a, tokens: t, insecure: true}"}),
      HasSubstr("take out one or the other"));
  EXPECT_THAT(ErrorOf(kGood, {"local.security.name=run"}),
              HasSubstr("local.security.name = run: is for TLS"));
}

TEST(LoadTest, APrintedConfigBindsToTheSameConfig) {
  auto config = ParseRunConfig(
      kGood, "b.yaml",
      {"run.optim.lr=0.1", "run.reward.by_source={gsm8k: number}", "run.name='a: \"b\"'",
       "local.launch.mpirun_args=[--mca, x]", "run.seed=18446744073709551615"});
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  auto again = ParseRunConfig(PrintRunConfig(*config), "printed", {});
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(PrintRunConfig(*again), PrintRunConfig(*config));
  EXPECT_EQ(again->run.seed, 18446744073709551615u);
  EXPECT_EQ(again->run.reward.by_source.at("gsm8k"), "number");
}

TEST(LoadTest, TheHashCoversTheRunHalfOnly) {
  auto a = ParseRunConfig(kGood, "b.yaml", {});
  auto b = ParseRunConfig(kGood, "b.yaml", {"local.out=elsewhere"});
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(RunConfigHash(*a), RunConfigHash(*b));
  for (const char* set : {"run.seed=2", "run.reward.noise.false_positive=0.1",
                          "run.algorithm.avspo.prior.decay=0.9"}) {
    auto c = ParseRunConfig(kGood, "b.yaml", {set});
    ASSERT_TRUE(c.ok()) << c.status().ToString();
    EXPECT_NE(RunConfigHash(*a), RunConfigHash(*c)) << set;
  }
}

TEST(LoadTest, AKeyOfAnotherSectionIsNamedWhole) {
  EXPECT_THAT(ErrorOf("optim: {lr: 1}\n"), HasSubstr("b.yaml:1: optim: unknown key; did you mean "
                                                     "'run.optim'?"));
  EXPECT_THAT(ErrorOf("optim.lr: 1\n"),
              HasSubstr("b.yaml:1: optim.lr: unknown key; did you mean 'run.optim.lr'?"));
  EXPECT_THAT(ErrorOf("run:\n  group_size: 4\n"),
              HasSubstr("b.yaml:2: run.group_size: unknown key; did you mean "
                        "'run.sampling.group_size'?"));
  EXPECT_THAT(ErrorOf("run.optim.lr: 1\n"),
              HasSubstr("run.optim.lr: unknown key; write 'run: {optim: {lr: ...}}'"));
  EXPECT_THAT(ErrorOf(kGood, {"optm.lr=1"}),
              HasSubstr("--set optm.lr=1: unknown key; did you mean 'run.optim.lr'?"));
  EXPECT_THAT(ErrorOf(kGood, {"run.group_size=1"}),
              HasSubstr("run.group_size: unknown key; did you mean 'run.sampling.group_size'?"));
}

}  // namespace
}  // namespace buttress
