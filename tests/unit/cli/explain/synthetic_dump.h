// A run of a trainer that never was: prompts with success rates, a policy that writes texts, a
// sampler with seeds, a token limit, a verifier; and faults in each of these parts. It writes
// verl's rollout dump and remembers which fault made which group.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/random.h"
#include "lib/explain/cause.h"

namespace buttress {

// A prompt of the run and what happens to its groups.
struct SyntheticPrompt {
  int id = 0;
  std::string source = "math";
  double success_rate = 0.5;
  Cause fault = Cause::kUnknown;  // of its groups while they are collapsed: too easy and too hard
                                  // come from the success rate
};

// Faults of a step as a whole.
struct SyntheticStep {
  std::string constant_source;  // the verifier of this source gives everyone `constant_reward`
  double constant_reward = 0;
};

class SyntheticDump {
 public:
  static constexpr int kWordLimit = 220;  // texts are cut there

  SyntheticDump(std::uint64_t seed, int group_size) : random_({seed, 1}), group_size_(group_size) {}

  // Appends the groups of a step. `lines` of them are in text().
  void AddStep(std::int64_t step, const std::vector<SyntheticPrompt>& prompts,
               const SyntheticStep& faults = {});

  // JSONL of all steps.
  const std::string& text() const { return text_; }

  // What made group (step, prompt), as far as a fault did.
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
  std::map<int, std::vector<Sample>> last_;  // of a prompt, for weights that do not move
  std::string text_;
  std::map<std::pair<std::int64_t, int>, Cause> truth_;
};

}  // namespace buttress
