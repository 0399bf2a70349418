#include "rollout_worker/evaluation/eval_scores.h"

namespace buttress {

void EvalScores::Add(std::int64_t row, const Verdict& verdict) {
  PromptScores& prompt = prompts_[row];
  const bool correct = verdict.outcome == Outcome::kCorrect;
  if (!correct && verdict.outcome != Outcome::kWrong) return;
  ++prompt.successes.scored;
  prompt.successes.correct += correct ? 1 : 0;
  if (verdict.given.empty()) {
    ++prompt.blank;
    return;
  }
  Answer& answer = prompt.answers[verdict.given];
  (correct ? answer.correct : answer.wrong) += 1;
}

Estimate EvalScores::PassAt(std::int64_t k) const {
  std::vector<double> of_prompts;
  for (const auto& [row, prompt] : prompts_) {
    if (prompt.successes.scored >= k) of_prompts.push_back(PassAtK(prompt.successes, k));
  }
  return MeanOver(of_prompts);
}

Estimate EvalScores::MajAt(std::int64_t k) const {
  std::vector<double> of_prompts;
  std::vector<AnswerVotes> votes;
  for (const auto& [row, prompt] : prompts_) {
    if (prompt.successes.scored < k) continue;
    votes.clear();
    for (const auto& [text, answer] : prompt.answers) {
      votes.push_back({answer.correct + answer.wrong, answer.correct > answer.wrong});
    }
    of_prompts.push_back(MajAtK(votes, prompt.blank, k));
  }
  return MeanOver(of_prompts);
}

Estimate EvalScores::Avg() const {
  std::vector<double> of_prompts;
  for (const auto& [row, prompt] : prompts_) {
    const Successes& s = prompt.successes;
    if (s.scored > 0)
      of_prompts.push_back(static_cast<double>(s.correct) / static_cast<double>(s.scored));
  }
  return MeanOver(of_prompts);
}

std::vector<std::int64_t> PowersUpTo(std::int64_t n) {
  std::vector<std::int64_t> ks;
  for (std::int64_t k = 1; k < n; k *= 2) ks.push_back(k);
  ks.push_back(n);
  return ks;
}

}  // namespace buttress
