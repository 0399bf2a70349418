#include "lib/explain/facts.h"

#include <absl/strings/ascii.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "lib/base/text/random.h"
#include "lib/base/text/reward_bounds.h"
#include "lib/rl/collapse/acr.h"

namespace buttress {
namespace {

bool IsWord(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; }

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

// Returns whether a text ends with a letter, a comma, an operator or an open bracket, after which
// more text is expected. A digit or another character may end an answer.
bool EndsMidway(std::string_view text) {
  while (!text.empty() && absl::ascii_isspace(text.back())) text.remove_suffix(1);
  if (text.empty()) return false;
  constexpr std::string_view kContinues = ",;:([{<\\+-*/=&_^";
  const char last = text.back();
  return absl::ascii_isalpha(static_cast<unsigned char>(last)) ||
         kContinues.find(last) != std::string_view::npos;
}

// Returns the length of the first word of `text`: letters and digits, or one other character.
// REQUIRES: `text` is not empty and does not begin with a space.
std::size_t WordLength(std::string_view text) {
  std::size_t end = 1;
  if (IsWord(text[0])) {
    while (end < text.size() && IsWord(text[end])) ++end;
  } else {
    while (end < text.size() && IsContinuation(text[end])) ++end;
  }
  return end;
}

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

TextFacts FactsOfText(std::string_view text) {
  MinHasher words;
  std::int32_t count = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (absl::ascii_isspace(text[at])) {
      ++at;
      continue;
    }
    const std::size_t size = WordLength(text.substr(at));
    words.Add(HashText(text.substr(at, size)));
    ++count;
    at += size;
  }
  return {.digest = std::max<std::uint64_t>(1, HashText(text)),
          .words = count,
          .length = static_cast<std::int32_t>(std::min<std::size_t>(text.size(), INT32_MAX)),
          .ends_midway = EndsMidway(text),
          .sketch = words.Finish()};
}

bool MaskHugeReward(CompletionFacts& completion) {
  const auto huge = [](double reward) { return std::abs(reward) > kMaxReward; };
  if (!huge(completion.deciding_reward) && !huge(completion.raw_reward) &&
      !huge(completion.shaped_reward))
    return false;
  completion.SetRewards(std::numeric_limits<double>::quiet_NaN());
  completion.outcome = Outcome::kUnscorable;
  return true;
}

std::vector<double> GroupFacts::deciding_rewards() const {
  std::vector<double> values;
  for (const CompletionFacts& c : completions) values.push_back(c.deciding_reward);
  return values;
}

std::vector<Outcome> GroupFacts::outcomes() const {
  std::vector<Outcome> values;
  for (const CompletionFacts& c : completions) {
    if (c.outcome == Outcome::kUnspecified) return {};
    values.push_back(c.outcome);
  }
  return values;
}

bool GroupFacts::judged() const {
  return std::ranges::all_of(completions, &CompletionFacts::judged);
}

CollapseClass GroupFacts::collapse() const {
  const CollapseClass collapse = ClassifyGroup(deciding_rewards(), outcomes());
  return IsConstant(collapse) && !judged() ? CollapseClass::kOtherConstant : collapse;
}

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
