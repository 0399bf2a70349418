#include "lib/explain/source_record.h"

#include "lib/explain/cause.h"
#include "lib/explain/rates.h"
#include "lib/rl/eval/pass_at_k.h"

namespace buttress {

bool SourceStep::fault(const CauseRules& rules) const {
  return constant && !confirmed && streak_groups >= rules.verifier_groups &&
         streak_chance < rules.verifier_chance;
}

double SourceRecord::MostRate(ConstantAt at, const CauseRules& rules) const {
  if (recent_groups_ < rules.verifier_memory) return 1;
  std::int64_t alike = 0;
  for (const SourceStep& step : recent_) {
    alike += at == ConstantAt::kBest ? step.best : at == ConstantAt::kWorst ? step.worst : 0;
  }
  return WilsonInterval(Share(alike, recent_groups_), static_cast<double>(recent_groups_)).high;
}

void SourceRecord::SetStreak(SourceStep& step) const {
  step.streak_chance = step.chance;
  step.streak_groups = step.groups;
  step.streak_steps = 1;
  if (streak_.empty() || !EqualRewards(streak_.back().value, step.value)) return;
  for (const SourceStep& earlier : streak_) step.streak_chance *= earlier.chance;
  step.streak_groups += streak_groups_;
  step.streak_steps += static_cast<std::int64_t>(streak_.size());
}

void SourceRecord::Add(const SourceStep& step, const CauseRules& rules) {
  const auto release = [&] {
    if (!streak_.back().fault(rules)) AddToRecent(streak_.front(), rules);
    streak_groups_ -= streak_.front().groups;
    streak_.pop_front();
  };
  if (!step.constant || step.streak_steps == 1) {
    if (!streak_.empty() && streak_.back().fault(rules)) {
      streak_.clear();
      streak_groups_ = 0;
    }
    while (!streak_.empty()) release();
  }
  if (!step.constant) return AddToRecent(step, rules);
  streak_.push_back(step);
  streak_groups_ += step.groups;
  while (streak_groups_ - streak_.front().groups >= rules.streak_groups) release();
}

void SourceRecord::AddToRecent(const SourceStep& step, const CauseRules& rules) {
  recent_.push_back(step);
  recent_groups_ += step.groups;
  while (recent_groups_ - recent_.front().groups >= rules.verifier_memory) {
    recent_groups_ -= recent_.front().groups;
    recent_.pop_front();
  }
}

}  // namespace buttress
