// Simulates a trainer: prompts with success rates, a policy that writes texts, a sampler with
// seeds, a token limit, a verifier, and faults in each of these parts. It writes a rollout dump of
// verl and records which fault made which group.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/text/random.h"
#include "lib/explain/cause.h"

namespace buttress {

// A prompt of the run and the fault of its groups.
struct SyntheticPrompt {
  int id = 0;
  std::string source = "math";
  double success_rate = 0.5;
  // The fault of its collapsed groups; too easy and too hard follow from the success rate.
  Cause fault = Cause::kUnknown;
};

// Faults of a whole step.
struct SyntheticStep {
  std::string constant_source;  // its verifier always returns `constant_reward`
  double constant_reward = 0;
};

class SyntheticDump {
 public:
  static constexpr int kWordLimit = 220;  // words of a text

  SyntheticDump(std::uint64_t seed, int group_size) : random_({seed, 1}), group_size_(group_size) {}

  // Appends the groups of a step to text().
  void AddStep(std::int64_t step, const std::vector<SyntheticPrompt>& prompts,
               const SyntheticStep& faults = {});

  // The JSONL of all steps.
  const std::string& text() const { return text_; }

  // The fault of group (step, prompt), if it had one.
  const std::map<std::pair<std::int64_t, int>, Cause>& truth() const { return truth_; }

 private:
  struct Sample {
    std::string text;
    bool correct = false;
  };

  std::vector<Sample> SampleGroup(const SyntheticPrompt& prompt);
  Sample Draw(const SyntheticPrompt& prompt, int words);
  Sample Vary(const Sample& base);
  std::string Word(std::uint64_t bound);
  std::vector<double> Score(const SyntheticPrompt& prompt, const std::vector<Sample>& samples);

  RandomStream random_;
  const int group_size_;
  std::map<int, std::vector<Sample>> last_;  // by prompt, for weights that do not change
  std::string text_;
  std::map<std::pair<std::int64_t, int>, Cause> truth_;
};

}  // namespace buttress
