// Mathematical answers, compared by what they mean: lib/verify/math/equal.h says when two are the
// same, answer.h where they stand. The reference is read like a response: it may be a whole
// solution.
#include <algorithm>
#include <optional>
#include <string>

#include "lib/verify/extract.h"
#include "lib/verify/math/answer.h"
#include "lib/verify/math/equal.h"
#include "lib/verify/math/parser.h"
#include "lib/verify/verifiers.h"

namespace buttress {
namespace {

constexpr std::size_t kShownBytes = 200;

struct Answer {
  std::string_view anchor;
  std::string source;  // as it stands in the text
  MathNode node;
};

bool IsComma(std::string_view text) {
  for (std::size_t i = 1; i + 1 < text.size(); ++i) {
    const auto digit = [&](std::size_t at) { return text[at] >= '0' && text[at] <= '9'; };
    if (text[i] == ',' && digit(i - 1) && digit(i + 1)) return true;
  }
  return false;
}

// Members of joined boxes, equal ones once: "2x, or x + x" is one answer.
void DropRepeated(MathNode& list) {
  if (list.kind != MathKind::kList) return;
  std::vector<MathNode> kept;
  for (MathNode& part : list.parts) {
    const auto same = [&](const MathNode& other) {
      return CompareMath(part, other) == Sameness::kSame;
    };
    if (std::none_of(kept.begin(), kept.end(), same)) kept.push_back(std::move(part));
  }
  list.parts = std::move(kept);
}

// What no grammar reads is a text, equal to what is written alike.
MathNode AsText(std::string_view source) {
  std::string text;
  for (const char c : source) {
    if (c != ' ' && c != '\n' && c != '\t' && c != '$') text.push_back(c);
  }
  return MakeNode(MathKind::kText, {}, std::move(text));
}

// A sentence that parses as words is no answer where a number may be meant.
bool IsSentence(const AnswerCandidate& candidate, const MathNode& node) {
  return candidate.anchor != "boxed" && node.kind == MathKind::kText &&
         node.text.find_first_of("0123456789") != std::string::npos;
}

std::optional<Answer> ReadAnswer(std::string_view text, bool truncated) {
  std::vector<AnswerCandidate> candidates = FindAnswers(text, truncated);
  for (AnswerCandidate& candidate : candidates) {
    Result<MathNode> node = ParseMath(candidate.text, CommaReading::kThousands);
    if (!node.ok() || IsSentence(candidate, *node)) continue;
    if (candidate.joined) DropRepeated(*node);
    return Answer{candidate.anchor, std::move(candidate.text), *std::move(node)};
  }
  if (candidates.empty() || candidates.front().text.size() > kMaxAnswerBytes) return std::nullopt;
  AnswerCandidate& first = candidates.front();
  MathNode node = AsText(first.text);
  return Answer{first.anchor, std::move(first.text), std::move(node)};
}

// With the comma between digits read in the other ways: "3,14" as 3.14, and "100,200" as two
// numbers.
Sameness CompareReadings(const Answer& given, const Answer& gold) {
  const Sameness first = CompareMath(given.node, gold.node);
  if (first == Sameness::kSame || (!IsComma(given.source) && !IsComma(gold.source))) return first;
  for (const CommaReading commas : {CommaReading::kSeparator, CommaReading::kDecimal}) {
    if (commas == CommaReading::kDecimal && gold.node.kind == MathKind::kList) continue;
    const Result<MathNode> other = ParseMath(given.source, commas);
    if (other.ok() && CompareMath(*other, gold.node) == Sameness::kSame) return Sameness::kSame;
  }
  for (const CommaReading commas : {CommaReading::kSeparator, CommaReading::kDecimal}) {
    if (commas == CommaReading::kDecimal && given.node.kind == MathKind::kList) continue;
    const Result<MathNode> other = ParseMath(gold.source, commas);
    if (other.ok() && CompareMath(given.node, *other) == Sameness::kSame) return Sameness::kSame;
  }
  return first;
}

std::string Shown(const MathNode& node) {
  return std::string(FirstBytes(ToText(node), kShownBytes));
}

class Math : public Verifier {
 public:
  Verdict Verify(const VerifyRequest& request) const override {
    const std::optional<Answer> gold = ReadAnswer(request.answer, /*truncated=*/false);
    if (!gold) return Unscorable("answer: none found in the reference");
    const std::optional<Answer> given = ReadAnswer(request.response, request.truncated);
    if (!given) return Wrong("", Shown(gold->node));
    Verdict verdict = Judge(*given, *gold);
    verdict.anchor = given->anchor;
    return verdict;
  }

 private:
  static Verdict Judge(const Answer& given, const Answer& gold) {
    switch (CompareReadings(given, gold)) {
      case Sameness::kSame:
        return Correct(Shown(given.node), Shown(gold.node));
      case Sameness::kDifferent:
        return Wrong(Shown(given.node), Shown(gold.node));
      case Sameness::kUndecided:
        break;
    }
    Verdict verdict =
        Unscorable("answer: cannot be computed, and the response's is written differently");
    verdict.given = Shown(given.node);
    verdict.gold = Shown(gold.node);
    return verdict;
  }
};

}  // namespace

std::unique_ptr<Verifier> MakeMath(const RewardConfig& /*config*/) {
  return std::make_unique<Math>();
}

}  // namespace buttress
