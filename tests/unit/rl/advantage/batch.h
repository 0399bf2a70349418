// Batches for tests of estimators.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "lib/rl/advantage/advantage.h"
#include "lib/rl/collapse/collapse_metrics.h"

namespace buttress {

using TestGroups = std::vector<std::vector<std::optional<double>>>;

// Owns what AdvantageInput views. An absent reward belongs to an unscorable completion; 1 is
// correct, 0 wrong, and partial credit either in turn, so that a constant 0.5 is neither
// all-correct nor all-wrong.
class TestBatch {
 public:
  explicit TestBatch(const TestGroups& groups) {
    offsets_ = {0};
    for (const auto& group : groups) {
      for (std::size_t i = 0; i < group.size(); ++i) {
        rewards_.push_back(group[i].value_or(std::numeric_limits<double>::quiet_NaN()));
        lengths_.push_back(1);
        if (!group[i]) {
          outcomes_.push_back(Outcome::kUnscorable);
        } else {
          const bool correct = *group[i] == 1.0 || (*group[i] != 0.0 && i % 2 == 0);
          outcomes_.push_back(correct ? Outcome::kCorrect : Outcome::kWrong);
        }
      }
      offsets_.push_back(static_cast<std::int32_t>(rewards_.size()));
      history_.emplace_back();
    }
    classes_ = ClassifyGroups(rewards_, outcomes_, offsets_);
    collapse_ = MakeCollapseSnapshot(rewards_, outcomes_, offsets_, history_);
  }

  // Setters of the inputs besides rewards: [N], [N, C], [K].
  void set_lengths(std::vector<std::int32_t> lengths) { lengths_ = std::move(lengths); }

  void set_components(std::vector<double> components) { components_ = std::move(components); }

  void set_history(std::vector<PromptHistory> history) { history_ = std::move(history); }

  // The sources of the groups, in the order of names, and their counts in the steps before.
  void set_sources(std::vector<SourceCollapse> sources, std::vector<std::int32_t> of_group) {
    for (std::size_t k = 0; k < of_group.size(); ++k) {
      sources[static_cast<std::size_t>(of_group[k])].step.Add(classes_[k]);
    }
    collapse_.sources = std::move(sources);
    sources_ = std::move(of_group);
  }

  void set_acr_ema(double acr_ema) { collapse_.acr_ema = acr_ema; }

  // A view of this batch; tests change fields of the result to make an invalid one.
  AdvantageInput input() const {
    AdvantageInput input;
    input.rewards = rewards_;
    input.raw_rewards = rewards_;
    input.outcomes = outcomes_;
    input.components = components_;
    input.lengths = lengths_;
    input.group_offsets = offsets_;
    input.classes = classes_;
    input.history = history_;
    input.sources = sources_;
    input.collapse = collapse_;
    input.key = {0x1234567890ABCDEF, 42};
    return input;
  }

 private:
  std::vector<double> rewards_;
  std::vector<double> components_;
  std::vector<Outcome> outcomes_;
  std::vector<std::int32_t> lengths_;
  std::vector<std::int32_t> offsets_;
  std::vector<CollapseClass> classes_;
  std::vector<PromptHistory> history_;
  std::vector<std::int32_t> sources_;
  CollapseSnapshot collapse_;
};

// Returns the message of the error that the estimator reports, or "".
inline std::string ErrorOf(const AdvantageInput& input, const AlgorithmConfig& options = {}) {
  const auto out = ComputeAdvantages(input, options);
  return out.ok() ? "" : out.status().message();
}

}  // namespace buttress
