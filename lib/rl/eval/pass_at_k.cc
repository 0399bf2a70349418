#include "lib/rl/eval/pass_at_k.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "lib/base/report/check.h"

namespace buttress {
namespace {

// C(n, 0) ... C(n, up_to).
std::vector<double> Binomials(std::int64_t n, std::int64_t up_to) {
  std::vector<double> row = {1.0};
  for (std::int64_t u = 1; u <= up_to; ++u)
    row.push_back(row.back() * static_cast<double>(n - u + 1) / static_cast<double>(u));
  return row;
}

// Numbers of draws in which no answer has more than `top` votes, by votes drawn and by the number
// of answers that have exactly `top` votes, the leaders.
class DrawCounts {
 public:
  DrawCounts(std::int64_t k, std::int64_t top)
      : k_(k), top_(top), leaders_(k / top), draws_(Cells(), 0.0), correct_(Cells(), 0.0) {
    draws_[0] = 1.0;
  }

  void AddBlank(std::int64_t blank) {
    Add(std::min(blank, k_), Binomials(blank, std::min(blank, k_)), /*leads=*/false,
        /*correct=*/false);
  }

  void AddAnswer(const AnswerVotes& answer) {
    const std::int64_t most = std::min({answer.count, top_, k_});
    Add(most, Binomials(answer.count, most), most == top_, answer.correct);
  }

  // Sum, over the draws of k votes in which some answer has `top` votes, of the share of correct
  // answers among the leaders.
  double CorrectDraws() const {
    double sum = 0;
    for (std::int64_t m = 1; m <= leaders_; ++m)
      sum += correct_[Cell(k_, m)] / static_cast<double>(m);
    return sum;
  }

 private:
  std::size_t Cells() const { return static_cast<std::size_t>((k_ + 1) * (leaders_ + 1)); }

  std::size_t Cell(std::int64_t drawn, std::int64_t leaders) const {
    return static_cast<std::size_t>(drawn * (leaders_ + 1) + leaders);
  }

  // Adds one kind of completion, of which u = 0 ... most are drawn in ways[u] ways. `leads`: it is
  // one of the leaders for u = most.
  void Add(std::int64_t most, const std::vector<double>& ways, bool leads, bool correct) {
    std::vector<double> draws(Cells(), 0.0), of_correct(Cells(), 0.0);
    for (std::int64_t drawn = 0; drawn <= k_; ++drawn) {
      for (std::int64_t m = 0; m <= leaders_; ++m) {
        const double d = draws_[Cell(drawn, m)], c = correct_[Cell(drawn, m)];
        if (d == 0) continue;
        for (std::int64_t u = 0; u <= std::min(most, k_ - drawn); ++u) {
          const bool leader = leads && u == most;
          const std::size_t to = Cell(drawn + u, m + (leader ? 1 : 0));
          const double factor = ways[static_cast<std::size_t>(u)];
          draws[to] += factor * d;
          of_correct[to] += factor * (c + (leader && correct ? d : 0.0));
        }
      }
    }
    draws_ = std::move(draws);
    correct_ = std::move(of_correct);
  }

  const std::int64_t k_;
  const std::int64_t top_;
  const std::int64_t leaders_;   // at most
  std::vector<double> draws_;    // ways
  std::vector<double> correct_;  // ways, each times its number of correct leaders
};

// The share of correct answers among those with the most votes.
double Plurality(std::span<const AnswerVotes> answers) {
  std::int64_t most = 0;
  for (const AnswerVotes& answer : answers) most = std::max(most, answer.count);
  double leaders = 0, correct = 0;
  for (const AnswerVotes& answer : answers) {
    if (answer.count != most) continue;
    leaders += 1;
    correct += answer.correct ? 1 : 0;
  }
  return most == 0 ? 0.0 : correct / leaders;
}

}  // namespace

double PassAtK(const Successes& successes, std::int64_t k) {
  const auto& [correct, scored] = successes;
  BUTTRESS_CHECK(0 <= correct && correct <= scored && 1 <= k && k <= scored,
                 "pass@k has 0 <= correct <= scored and 1 <= k <= scored");
  if (scored - correct < k) return 1.0;
  double all_wrong = 1.0;
  for (std::int64_t i = scored - correct + 1; i <= scored; ++i)
    all_wrong *= 1.0 - static_cast<double>(k) / static_cast<double>(i);
  return 1.0 - all_wrong;
}

ShareInterval WilsonInterval(double share, double trials) {
  if (trials <= 0) return {};
  constexpr double kNormal95 = 1.959963984540054;
  const double z2 = kNormal95 * kNormal95 / trials;
  const double centre = (share + z2 / 2) / (1 + z2);
  const double half =
      kNormal95 * std::sqrt(share * (1 - share) / trials + z2 / (4 * trials)) / (1 + z2);
  // The ends at 0 and 1 are exact, which centre and half are not.
  return {share == 0 ? 0.0 : std::max(0.0, centre - half),
          share == 1 ? 1.0 : std::min(1.0, centre + half)};
}

Estimate MeanOver(std::span<const double> of_prompts) {
  Estimate estimate;
  estimate.prompts = static_cast<std::int64_t>(of_prompts.size());
  if (of_prompts.empty()) return estimate;
  const auto n = static_cast<double>(of_prompts.size());
  for (const double value : of_prompts) estimate.mean += value;
  estimate.mean = std::clamp(estimate.mean / n, 0.0, 1.0);
  const double m = estimate.mean;
  const double binary = m * (1 - m);
  double squares = binary;  // of one more prompt, right or wrong
  for (const double value : of_prompts) squares += (value - m) * (value - m);
  const double trials = squares > 0 ? std::max(n, n * n * binary / squares) : n;
  const ShareInterval interval = WilsonInterval(m, trials);
  estimate.low = interval.low;
  estimate.high = interval.high;
  return estimate;
}

double MajAtK(std::span<const AnswerVotes> answers, std::int64_t blank, std::int64_t k) {
  std::int64_t n = blank;
  std::int64_t most_correct = 0;
  for (const AnswerVotes& answer : answers) {
    BUTTRESS_CHECK(answer.count >= 0, "votes are not negative");
    n += answer.count;
    if (answer.correct) most_correct = std::max(most_correct, answer.count);
  }
  BUTTRESS_CHECK(blank >= 0 && 1 <= k && k <= n && n <= kMaxVotes,
                 "maj@k has 1 <= k <= n <= kMaxVotes");
  if (k == n) return Plurality(answers);
  double correct_draws = 0;
  for (std::int64_t top = 1; top <= std::min(most_correct, k); ++top) {
    DrawCounts counts(k, top);
    counts.AddBlank(blank);
    for (const AnswerVotes& answer : answers) counts.AddAnswer(answer);
    correct_draws += counts.CorrectDraws();
  }
  return correct_draws / Binomials(n, k).back();
}

}  // namespace buttress
