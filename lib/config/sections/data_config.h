// Settings of prompts: which datasets a run draws from, how their rows become prompts, which
// prompts are passed over, and what happens to groups without a signal.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "lib/config/choice.h"
#include "lib/config/limits.h"

namespace buttress {

// What happens to groups whose rewards are all equal.
enum class ZeroVariancePolicy : std::uint8_t { kKeep, kMask, kResample, kVirtual };

template <>
inline constexpr ChoiceRow<ZeroVariancePolicy> kChoices<ZeroVariancePolicy>[] = {
    {ZeroVariancePolicy::kKeep, "keep", "the estimator decides"},
    {ZeroVariancePolicy::kMask, "mask", "in no loss"},
    {ZeroVariancePolicy::kResample, "resample", "replaced by other prompts, up to a cap"},
    {ZeroVariancePolicy::kVirtual, "virtual", "advantage: avspo"},
};

// Which prompts are passed over by their history.
enum class SelectionMode : std::uint8_t { kNone, kGreso, kSpeed, kMopps };

template <>
inline constexpr ChoiceRow<SelectionMode> kChoices<SelectionMode>[] = {
    {SelectionMode::kNone, "none"},
    {SelectionMode::kGreso, "greso", "constant again and again"},
    {SelectionMode::kSpeed, "speed", "constant last time"},
    {SelectionMode::kMopps, "mopps", "far from a success rate"},
};

// Which completions the loss of a step is divided by, where groups without a signal are masked or
// replaced.
enum class StepDenominator : std::uint8_t { kDrawn, kKept };

template <>
inline constexpr ChoiceRow<StepDenominator> kChoices<StepDenominator>[] = {
    {StepDenominator::kDrawn, "drawn", "all that were sampled for it"},
    {StepDenominator::kKept, "kept", "those in the loss: DAPO's recipe"},
};

// Dynamic sampling of DAPO (arXiv 2503.14476), with bounds that the paper does not have. The cap is
// that of its released recipe (max_num_gen_batches), which fails where the plan is filled here.
struct ResampleConfig {
  std::int64_t cap = 10;
  std::int64_t budget = 0;

  void Visit(auto& v) {
    v("cap", cap,
      "bound of the groups replaced for a step, in units of P; beyond it constant groups fill the "
      "plan, masked",
      Between(1, 1000));
    v("budget", budget, "bound of the groups replaced in the whole run; 0 = no bound", AtLeast(0));
  }
};

// GRESO (arXiv 2506.02177); the defaults are the released code's.
struct GresoConfig {
  double keep_easy = 0.5;
  double keep_hard = 0.5;
  double target = 0.25;

  void Visit(auto& v) {
    v("keep_easy", keep_easy,
      "first base of the chance to draw an all-correct prompt again: base ^ (all-correct groups in "
      "a row)",
      kRate);
    v("keep_hard", keep_hard, "the same for all-wrong prompts", kRate);
    v("target", target,
      "share of constant groups that the bases are moved towards: a third of it easy, two thirds "
      "hard",
      kRate);
  }
};

// After SPEED (arXiv 2506.09016), with the last group of a prompt as its screening.
struct SpeedConfig {
  std::int64_t rest = 1;

  void Visit(auto& v) {
    v("rest", rest,
      "passes over the dataset for which a prompt whose last group was constant is left out",
      Between(1, 100));
  }
};

// MoPPS (arXiv 2507.04632); the defaults are the released code's.
struct MoppsConfig {
  std::int64_t candidates = 4;
  double target = 0.5;
  double decay = 1.0;

  void Visit(auto& v) {
    v("candidates", candidates, "prompts of which one is drawn", Between(1, 1024));
    v("target", target, "success rate that is wanted", kRate);
    v("decay", decay, "weight of older results at each new group, 1 = all count alike", kRate);
  }
};

struct SelectionConfig {
  SelectionMode mode = SelectionMode::kNone;
  bool unbiased = false;
  GresoConfig greso;
  SpeedConfig speed;
  MoppsConfig mopps;

  void Visit(auto& v) {
    v("mode", mode, "prompts passed over by their history");
    v("unbiased", unbiased,
      "mode greso: weight a group by 1 / the probability with which its prompt was drawn");
    v("greso", greso, "mode greso");
    v("speed", speed, "mode speed");
    v("mopps", mopps, "mode mopps");
  }
};

// What happens to prompts of more than data.max_prompt_tokens.
enum class OverLong : std::uint8_t { kRefuse, kDrop };

template <>
inline constexpr ChoiceRow<OverLong> kChoices<OverLong>[] = {
    {OverLong::kRefuse, "refuse", "the run does not begin"},
    {OverLong::kDrop, "drop", "they are counted and never drawn"},
};

// The source of prompts that name none.
inline constexpr const char* kDefaultSource = "default";

// One of several datasets that a run draws from. A setting that is absent is as in run.data,
// run.sampling or run.reward (lib/config/sources.h).
struct SourceConfig {
  std::string prompts;
  double weight = 1.0;
  std::optional<std::string> prompt_field;
  std::optional<std::string> answer_field;
  std::optional<std::string> id_field;
  std::optional<std::string> system_prompt;
  std::optional<bool> chat_template;
  std::optional<std::map<std::string, std::string>> template_arguments;
  std::optional<std::int64_t> max_prompt_tokens;
  std::optional<OverLong> over_long;
  std::optional<std::int64_t> max_tokens;
  std::optional<std::string> verifier;

  void Visit(auto& v) {
    v("prompts", prompts, "file or folder of the source's prompts, as run.data.prompts");
    v("weight", weight, "its share of the draws, relative to the weights of the other sources",
      kAbove0);
    v("prompt_field", prompt_field, "as run.data.prompt_field");
    v("answer_field", answer_field, "as run.data.answer_field");
    v("id_field", id_field, "as run.data.id_field");
    v("system_prompt", system_prompt, "as run.data.system_prompt");
    v("chat_template", chat_template, "as run.data.chat_template");
    v("template_arguments", template_arguments, "as run.data.template_arguments, instead of all");
    v("max_prompt_tokens", max_prompt_tokens,
      "tokens of its prompts at most; no more than run.data.max_prompt_tokens");
    v("over_long", over_long, "its prompts of more tokens");
    v("max_tokens", max_tokens,
      "tokens of its completions at most; no more than run.sampling.max_tokens");
    v("verifier", verifier, "what scores its completions, as run.reward.by_source");
  }
};

struct DataConfig {
  std::string prompts;
  std::map<std::string, SourceConfig> sources;
  std::string held_out;
  std::string prompt_field = "prompt";
  std::string answer_field = "answer";
  std::string id_field = "id";
  std::string source_field = "source";
  std::string system_prompt;
  bool chat_template = false;
  std::map<std::string, std::string> template_arguments;
  std::int64_t max_prompt_tokens = 1024;
  OverLong over_long = OverLong::kRefuse;
  bool shuffle = true;
  SelectionConfig selection;

  void Visit(auto& v) {
    v("prompts", prompts,
      "file or folder of training prompts (docs/data.md): a string or a list of chat messages, and "
      "an answer");
    v("sources", sources,
      "name -> dataset, instead of prompts: several datasets that the run draws from by weight");
    v("held_out", held_out,
      "prompts that are never trained on; empty: no accuracy before and after");
    v("prompt_field", prompt_field,
      "field that holds the prompt; a dotted path names a field inside another one, as "
      "extra_info.question; a field of that very name wins");
    v("answer_field", answer_field,
      "field that holds the reference answer, as reward_model.ground_truth; empty: the reward "
      "needs no answer");
    v("id_field", id_field,
      "field that holds the prompt's id; rows without one get their line number");
    v("source_field", source_field,
      "field that names the data source; rows without one are 'default', and rows of data.sources "
      "have the name of their source");
    v("system_prompt", system_prompt,
      "system message put before string prompts; needs chat_template");
    v("chat_template", chat_template,
      "render prompts with the model's chat template (lists of messages always are)");
    v("template_arguments", template_arguments,
      "names that the chat template reads, each value JSON or else text: {enable_thinking: false, "
      "date_string: 26 Jul 2024}; without a date, a template that asks for it gets today's");
    v("max_prompt_tokens", max_prompt_tokens, "tokens of a prompt at most", Between(1, kMaxTokens));
    v("over_long", over_long, "prompts of more tokens");
    v("shuffle", shuffle, "draw prompts in a new seeded order each pass instead of file order");
    v("selection", selection, "which prompts are passed over");
  }
};

}  // namespace buttress
