#include "lib/verify/audit/controls.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <vector>

#include "lib/verify/audit/countdown_answers.h"
#include "lib/verify/audit/variants.h"
#include "lib/verify/extract.h"
#include "lib/verify/math/answer.h"

namespace buttress {
namespace {

constexpr std::string_view kSearching[] = {"math", "number"};
// They compare the response with the answer, so that the answer is a response.
constexpr std::string_view kComparing[] = {"exact", "arithmetic", "normalized", "choice"};
constexpr std::string_view kLetters = "ABCDEFGHIJ";

bool IsOneOf(std::string_view name, std::span<const std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

// Returns a near miss that is certainly another value: of sign or digit.
std::optional<std::string> OtherValue(const std::string& answer, std::uint64_t turn) {
  constexpr std::size_t kMisses = 16;
  std::vector<NearMiss> misses = NearMisses(answer, kMisses);
  std::erase_if(misses,
                [](const NearMiss& miss) { return miss.rule != "sign" && miss.rule != "digit"; });
  if (misses.empty()) return std::nullopt;
  return misses[turn % misses.size()].text;
}

std::optional<std::string> OtherLetter(std::string_view answer, std::uint64_t turn) {
  const std::size_t at = answer.find_first_of(kLetters);
  if (at == std::string_view::npos) return std::nullopt;
  const std::size_t step = 1 + turn % (kLetters.size() - 1);
  return std::string(1, kLetters[(kLetters.find(answer[at]) + step) % kLetters.size()]);
}

std::string Tagged(const std::string& answer) { return "<answer>" + answer + "</answer>"; }

std::optional<std::string> Solution(const Result<CountdownProblem>& problem,
                                    const RewardConfig& config) {
  if (!problem.ok()) return std::nullopt;
  return SolveCountdown(*problem,
                        config.use_all ? NumberUse::kExactlyOnce : NumberUse::kAtMostOnce);
}

}  // namespace

std::string Boxed(std::string_view answer) { return "\\boxed{" + std::string(answer) + "}"; }

std::string BareAnswer(const std::string& answer) {
  const std::vector<std::string> anchors(std::begin(kMathAnchors), std::end(kMathAnchors));
  const std::vector<AnswerCandidate> found = FindAnswers(answer, /*truncated=*/false, anchors);
  return found.empty() || found.front().joined ? "" : found.front().text;
}

bool SearchesText(std::string_view verifier) { return IsOneOf(verifier, kSearching); }

std::optional<std::string> GoldResponse(std::string_view verifier, const std::string& answer,
                                        const RewardConfig& config) {
  if (verifier == "countdown") {
    const auto solution = Solution(ParseCountdown(answer), config);
    return solution ? std::optional(Tagged(*solution)) : std::nullopt;
  }
  const std::vector<std::string>& anchors = config.math.anchors;
  if (SearchesText(verifier)) {
    if (verifier == "math" && std::ranges::find(anchors, "boxed") == anchors.end())
      return std::nullopt;
    const std::string bare = BareAnswer(answer);
    return bare.empty() ? std::nullopt : std::optional(Boxed(bare));
  }
  const std::string_view trimmed = Trim(answer);
  // A list of answers is no answer.
  const bool list = verifier == "normalized" && trimmed.starts_with('[');
  if (!IsOneOf(verifier, kComparing) || trimmed.empty() || list) return std::nullopt;
  return std::string(trimmed);
}

std::optional<std::string> SpoiledResponse(std::string_view verifier, const std::string& answer,
                                           const RewardConfig& config, std::uint64_t turn) {
  if (verifier == "countdown") {
    const Result<CountdownProblem> problem = ParseCountdown(answer);
    const auto solution = Solution(problem, config);
    if (!solution) return std::nullopt;
    return Tagged(SpoiledCountdown(*problem, *solution, turn));
  }
  const std::optional<std::string> gold = GoldResponse(verifier, answer, config);
  if (!gold) return std::nullopt;
  if (SearchesText(verifier)) {
    const auto other = OtherValue(BareAnswer(answer), turn);
    return other ? std::optional(Boxed(*other)) : std::nullopt;
  }
  if (verifier == "arithmetic") return OtherValue(*gold, turn);
  if (verifier == "choice") return OtherLetter(*gold, turn);
  return *gold + " not";
}

}  // namespace buttress
