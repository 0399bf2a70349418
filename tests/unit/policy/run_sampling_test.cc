// The ratio of an unchanged policy under the sampling settings of a run.
#include <gmock/gmock.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "lib/config/bind.h"
#include "lib/config/load.h"
#include "lib/policy/decode/generator.h"
#include "lib/policy/stop_set.h"
#include "tests/support/fakes/byte_tokenizer.h"
#include "tests/unit/policy/golden.h"
#include "tests/unit/policy/teacher_forced.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

constexpr char kRun[] = "run: {data: {prompts: p}, model: {path: m}}";

// Values of each setting that a run accepts, and values that it refuses because the learner would
// give the sampled tokens other probabilities.
struct TriedSetting {
  std::vector<std::string> accepted;
  std::vector<std::string> refused;
};

const std::map<std::string, TriedSetting>& TriedSettings() {
  static const std::map<std::string, TriedSetting> settings = {
      {"group_size", {{"2", "16"}, {}}},
      {"temperature", {{"0.2", "0.7", "1", "1.6"}, {"0"}}},
      {"top_p", {{"1"}, {"0.9"}}},
      {"top_k", {{"0"}, {"20"}}},
      {"max_tokens", {{"1", "40"}, {}}},
      {"min_tokens", {{"0"}, {"1", "6"}}},
      {"stop", {{"[]", "['a', 'bc', '<|im_end|>']"}, {}}},
      {"include_stop", {{"false", "true"}, {}}},
      {"stop_token_ids", {{"[]", "[3, 20, 70, 90, 101]"}, {}}},
  };
  return settings;
}

// Samples with the settings, and returns the largest difference from the log-probs of a learner,
// which computes row by row or not.
double WorstDifference(const std::vector<std::string>& overrides, bool row_wise) {
  const auto config = ParseRunConfig(kRun, "run.yaml", overrides);
  EXPECT_TRUE(config.ok()) << config.status().ToString();
  const auto model = GoldenModel("qwen2_untied");
  if (row_wise) model->ComputeRowWise();
  const ByteTokenizer tokenizer;
  auto sampling = SamplingOfRun(config->run.sampling, model->config(), tokenizer);
  EXPECT_TRUE(sampling.ok()) << sampling.status().ToString();
  Generator generator(*model, {.max_running = 8, .kv_cache_tokens = 4096});
  constexpr std::uint64_t kSamples = 16;
  const auto prompt_of = [](std::uint64_t key) {
    return PromptOf(static_cast<std::int32_t>(key / 4), 3 + static_cast<std::int32_t>(key));
  };
  for (std::uint64_t key = 0; key < kSamples; ++key) {
    sampling->seed = key;
    EXPECT_TRUE(generator.Add(key, prompt_of(key), *sampling, &tokenizer).ok());
  }
  double worst = 0;
  while (generator.running() + generator.waiting() > 0) {
    for (const GeneratedSequence& sequence : generator.Step()) {
      worst = std::max(worst, TeacherForcedError(*model, prompt_of(sequence.key), sequence,
                                                 config->run.sampling.temperature));
    }
  }
  return worst;
}

TEST(RunSamplingTest, TheRatioOfAnUnchangedPolicyIsOneForEverySettingThatARunAccepts) {
  const std::string section = "run.sampling.";
  std::set<std::string> names;
  for (const Setting& setting : ListSettings(RunConfig())) {
    if (setting.key.starts_with(section)) names.insert(setting.key.substr(section.size()));
  }
  std::set<std::string> tried;
  for (const auto& [name, setting] : TriedSettings()) tried.insert(name);
  EXPECT_EQ(tried, names) << "name values of each setting in TriedSettings";

  for (const auto& [name, setting] : TriedSettings()) {
    for (const std::string& value : setting.accepted) {
      std::vector<std::string> overrides = {section + "max_tokens=40",
                                            section + name + "=" + value};
      if (name != "temperature") overrides.push_back(section + "temperature=0.7");
      EXPECT_LT(WorstDifference(overrides, false), 1e-4) << name << " = " << value;
      EXPECT_EQ(WorstDifference(overrides, true), 0) << name << " = " << value;
    }
    for (const std::string& value : setting.refused) {
      const auto config = ParseRunConfig(kRun, "run.yaml", {section + name + "=" + value});
      EXPECT_THAT(config.status().message(), HasSubstr(section + name + " = " + value + ": "));
    }
  }
}

TEST(RunSamplingTest, MinTokensAreRefusedWithTheReason) {
  const auto config = ParseRunConfig(kRun, "run.yaml", {"run.sampling.min_tokens=6"});
  EXPECT_EQ(config.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(config.status().message(), HasSubstr("run.sampling.min_tokens = 6: 0 (off): "));
  EXPECT_THAT(config.status().message(), HasSubstr("biases every ratio; reward length instead"));
}

}  // namespace
}  // namespace buttress
