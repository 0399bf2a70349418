#include "lib/explain/copies.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace buttress {
namespace {

struct Text {
  std::int64_t count = 0;
  const CompletionFacts* first = nullptr;
};

// Bounds the probability that a text of probability q, sampled once, appears m times among n
// samples: C(n - 1, m - 1) q^(m - 1).
double ChanceOfCopies(std::int64_t n, std::int64_t m, double logprob) {
  const auto log_factorial = [](std::int64_t value) {
    return std::lgamma(static_cast<double>(value) + 1.0);
  };
  const double log_ways = log_factorial(n - 1) - log_factorial(m - 1) - log_factorial(n - m);
  return std::min(1.0, std::exp(log_ways + static_cast<double>(m - 1) * logprob));
}

double MeanSimilarity(const GroupFacts& group) {
  double sum = 0;
  std::int64_t pairs = 0;
  for (std::size_t i = 0; i < group.completions.size(); ++i) {
    const TextFacts& a = group.completions[i].text;
    for (std::size_t j = i + 1; a.known() && j < group.completions.size(); ++j) {
      const TextFacts& b = group.completions[j].text;
      if (!b.known()) continue;
      sum += a.digest == b.digest ? 1.0 : Similarity(a.sketch, b.sketch);
      ++pairs;
    }
  }
  return pairs == 0 ? 0.0 : sum / static_cast<double>(pairs);
}

}  // namespace

GroupCopies FindCopies(const GroupFacts& group) {
  GroupCopies copies;
  std::unordered_map<std::uint64_t, Text> texts;
  std::int32_t longest = 0;
  for (const CompletionFacts& c : group.completions) {
    if (!c.text.known()) continue;
    ++copies.known;
    longest = std::max(longest, c.text.words);
    Text& text = texts[c.text.digest];
    if (text.count++ == 0) text.first = &c;
  }
  copies.distinct = static_cast<std::int64_t>(texts.size());
  for (const auto& [digest, text] : texts) {
    copies.most = std::max(copies.most, text.count);
    if (text.count < 2) continue;
    copies.copied += text.count;
    copies.words = std::max(copies.words, text.first->text.words);
    if (!text.first->logprob) continue;
    const double chance = ChanceOfCopies(copies.known, text.count, *text.first->logprob);
    copies.chance = std::min(copies.chance.value_or(1.0), chance);
  }
  if (copies.copied == 0) copies.words = longest;
  copies.similarity = MeanSimilarity(group);
  return copies;
}

}  // namespace buttress
