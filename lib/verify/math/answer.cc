#include "lib/verify/math/answer.h"

#include <absl/strings/ascii.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "lib/verify/anchors.h"
#include "lib/verify/extract.h"
#include "lib/verify/math/clean_answer.h"
#include "lib/verify/math/spans.h"
#include "lib/verify/math/statement.h"
#include "lib/verify/math/syntax/node.h"
#include "lib/verify/math/values.h"
#include "lib/verify/math/words.h"
#include "lib/verify/prose/assertion.h"
#include "lib/verify/prose/prose.h"
#include "lib/verify/prose/prose_words.h"
#include "lib/verify/prose/sequel.h"

namespace buttress {
namespace {

using Behind = std::optional<std::string_view>;

constexpr std::size_t kMaxWholeBytes = 300;
constexpr int kMaxWholeWords = 2;
constexpr std::size_t kMaxValues = 64;  // of a text that are read to find the one that is stated

// Returns whether the text begins with a word that draws a conclusion: "So, 5 apples", "Solving, x
// = 5".
bool Concludes(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size() && absl::ascii_isalpha(text[end])) ++end;
  const std::string word = LowerAscii(text.substr(0, end));
  return (ProseClasses(word) & kSoWord) != 0 || word.ends_with("ing");
}

bool States(Assertion assertion) {
  return assertion == Assertion::kStated || assertion == Assertion::kNear;
}

// Returns the number of words of two letters or more.
int CountWords(std::string_view text) {
  int words = 0;
  int letters = 0;
  bool command = false;
  for (const char c : text) {
    if (absl::ascii_isalpha(c)) {
      if (++letters == 2 && !command) ++words;
      continue;
    }
    letters = 0;
    command = c == '\\';
  }
  return words;
}

// Whether the text is an answer and little else: one line of few words, which if it has one number
// states that.
bool IsAnswerAlone(std::string_view text, CommaReading commas) {
  if (text.size() > kMaxWholeBytes || text.find('\n') != std::string_view::npos ||
      text.find("$. ") != std::string_view::npos || Concludes(text))
    return false;
  const int words = CountWords(text);
  if (words == 0 || words > kMaxWholeWords) return words == 0;
  std::size_t end = 0;
  const auto number = NumberAt(text, 0, end, commas);
  if (!number || text.ends_with(" is.") || text.ends_with(" is")) return !number;
  const auto other = NumberAt(text, end, end, commas);
  if (other && text.find(": ") == std::string_view::npos)
    return !LowerAscii(text).starts_with("not ");
  return States(ReadAssertion(text, other.value_or(*number)));
}

class Candidates {
 public:
  Candidates(std::string_view text, bool truncated)
      : begin_(text.data()), end_(text.data() + text.size()), truncated_(truncated) {}

  void Add(std::string_view anchor, const std::optional<std::string_view>& span,
           Assertion assertion = Assertion::kStated, std::string_view read_as = {}) {
    if (!span || (truncated_ && MayGoOn(*span))) return;
    std::string text =
        CleanAnswer(FirstBytes(read_as.empty() ? *span : read_as, kMaxAnswerBytes + 1));
    if (text.empty()) return;
    const bool near = assertion == Assertion::kNear;
    found_.push_back({std::string(anchor), std::move(text), false, EndOf(*span), near,
                      !near && assertion != Assertion::kStated});
  }

  void AddList(std::string_view anchor, const ProseValue& list) {
    Add(anchor, list.span, Assertion::kStated, list.text);
    if (!found_.empty()) found_.back().joined = true;
  }

  // A closed box is complete even at the end of the text. An empty box is an answer that is wrong.
  void AddBoxes(AnswerCandidate boxes, std::string_view last) {
    boxes.end = EndOf(last);
    found_.push_back(std::move(boxes));
  }

  void Refuse(std::string_view anchor) {
    found_.push_back({std::string(anchor), {}, false, 0, false, /*refused=*/true});
  }

  bool empty() const { return found_.empty(); }

  std::vector<AnswerCandidate> Take() { return std::move(found_); }

 private:
  // "12" and "12." at the end of the text may be the begin of "12.5".
  bool MayGoOn(std::string_view span) const {
    const char* const behind = span.data() + span.size();
    const std::string_view rest(behind, static_cast<std::size_t>(end_ - behind));
    return rest.find_first_not_of("0123456789.,/") == std::string_view::npos;
  }

  std::size_t EndOf(std::string_view span) const {
    return static_cast<std::size_t>(span.data() + span.size() - begin_);
  }

  const char* begin_;
  const char* end_;
  bool truncated_;
  std::vector<AnswerCandidate> found_;
};

void AddBoxes(std::string_view anchor, std::string_view text, Candidates& found) {
  const std::vector<std::string_view> boxes = LastBoxes(text);
  std::string joined;
  for (const std::string_view box : boxes) {
    if (!joined.empty()) joined += ", ";
    joined += CleanAnswer(FirstBytes(box, kMaxAnswerBytes + 1));
  }
  if (!boxes.empty())
    found.AddBoxes({std::string(anchor), std::move(joined), boxes.size() > 1, 0}, boxes.back());
  if (boxes.empty() && EndsInOpenBox(text)) found.Refuse(anchor);
}

// Returns the values of the text from the last one to the first, with the last expression before
// the values in it.
std::vector<ProseValue> ValuesAndSpan(std::string_view text, const std::optional<MathSpan>& span,
                                      CommaReading commas) {
  std::vector<ProseValue> values = ValuesOf(text, commas, kMaxValues);
  if (!span || Trim(span->text).find_first_of("<>") == 0) return values;
  const char* const begin = span->text.data();
  const auto earlier = [&](const ProseValue& value) {
    return value.span.data() <= begin + span->text.size() &&
           (!value.list || (value.span.data() > begin && *begin == '('));
  };
  values.insert(std::ranges::find_if(values, earlier), {span->text, {}});
  return values;
}

// Adds the last value that the text states. A later one that is doubted leaves the text without an
// answer, and so does one that the text denies later on.
void AddLastValue(std::string_view anchor, std::string_view text, CommaReading commas,
                  Candidates& found) {
  const auto span = LastSpan(text);
  std::vector<std::string_view> denied;
  for (const ProseValue& value : ValuesAndSpan(text, span, commas)) {
    const bool mathematics =
        span && value.span.data() == span->text.data() && value.span.size() == span->text.size();
    const Assertion assertion =
        ReadAssertion(text, value.span, (mathematics || value.list) && IsEquation(value.span));
    if (States(assertion) && ReadSequel(text, value.span) != Sequel::kKeeps) return;
    if (value.list) {
      if (States(assertion)) return found.AddList(anchor, value);
      continue;
    }
    if (States(assertion)) {
      if (std::ranges::find(denied, value.span) != denied.end()) return;
      if (mathematics && span->rows && EndsInBound(span->text)) return;
      if (!mathematics || !span->rows) found.Add(anchor, value.span, assertion, value.text);
      if (!mathematics) return;
      if (const auto last = LastOfChain(value.span)) return found.Add(anchor, last, assertion);
    }
    if (assertion == Assertion::kOpen) return;
    if (assertion == Assertion::kDenied) denied.push_back(value.span);
  }
}

// Adds the last value that the text states, else the words that its last sentence does.
void AddLastExpression(std::string_view anchor, std::string_view text, CommaReading commas,
                       Candidates& found) {
  text = WithoutRemark(text);
  AddLastValue(anchor, text, commas, found);
  if (!found.empty()) return;
  const auto words = LastComplement(text);
  if (!words || ReadAssertion(text, *words) != Assertion::kStated) return;
  const std::size_t sentence =
      SentenceBegin(text, static_cast<std::size_t>(words->data() - text.data()));
  if (!Retracts(text.substr(sentence))) found.Add(anchor, words);  // not "Wait, that is wrong."
}

// Returns the offset of the end of `part` in `text`.
std::size_t End(std::string_view text, std::string_view part) {
  return static_cast<std::size_t>(part.data() + part.size() - text.data());
}

// Adds the candidates after an anchor: the sentence, else its mathematics, else its first number;
// or the last value behind it if the text takes it back there ("Oh wait, ...").
void AddBehind(std::string_view anchor, std::string_view text, const Behind& behind,
               CommaReading commas, Candidates& found) {
  if (!behind) return;
  const std::string_view sentence = Sentence(*behind);
  if (sentence.empty()) return;
  if (ReadSequel(text, sentence) == Sequel::kRetracts) {
    AddLastExpression(anchor, behind->substr(End(*behind, sentence)), commas, found);
    if (found.empty()) found.Refuse(anchor);
    return;
  }
  Assertion whole = ReadAssertion(text, sentence, /*equation=*/true);
  if (whole == Assertion::kStated && sentence.front() == '~') whole = Assertion::kNear;
  if (whole == Assertion::kDenied) {  // "The answer is not 5. It is 6."
    AddLastExpression(anchor, behind->substr(End(*behind, sentence)), commas, found);
    if (!found.empty()) return;
  }
  found.Add(anchor, sentence, whole);
  if (!States(whole)) return;
  if (const auto span = Mathematics(sentence)) {
    const Assertion assertion = ReadAssertion(text, *span, IsEquation(*span));
    if (States(assertion)) {
      found.Add(anchor, span, assertion);
      if (span->find('$', span->find_first_not_of('$')) == std::string_view::npos)
        found.Add(anchor, LastOfChain(*span), assertion);
    }
  }
  std::size_t end = 0;
  for (std::size_t values = 0; values < kMaxValues; ++values) {
    const auto number = NumberAt(sentence, end, end, commas);
    if (!number) return;
    const Assertion assertion = ReadAssertion(text, *number);
    if (States(assertion)) return found.Add(anchor, number, assertion);
    if (assertion == Assertion::kOpen) return;
  }
}

// Adds the candidates that the anchor finds in the text.
void AddBy(std::string_view anchor, std::string_view text, bool truncated, CommaReading commas,
           Candidates& found) {
  if (anchor == "boxed") return AddBoxes(anchor, text, found);
  if (anchor == "final answer is")
    return AddBehind(anchor, text, BehindFinalAnswer(text), commas, found);
  if (anchor == "####") return AddBehind(anchor, text, BehindHashes(text), commas, found);
  if (anchor == "answer:") return AddBehind(anchor, text, BehindAnswer(text), commas, found);
  if (truncated) return;
  if (const Behind tagged = InAnswerTags(text); tagged && !tagged->empty()) text = *tagged;
  if (anchor == "whole") {
    if (const std::string_view whole = Trim(text); IsAnswerAlone(whole, commas))
      found.Add(anchor, whole);
  } else if (anchor == "last expression") {
    AddLastExpression(anchor, text, commas, found);
  }
}

}  // namespace

std::vector<AnswerCandidate> FindAnswers(std::string_view text, bool truncated,
                                         const std::vector<std::string>& anchors,
                                         CommaReading commas) {
  text = WithoutThought(text);
  Candidates found(text, truncated);
  for (const std::string& anchor : anchors) {
    AddBy(anchor, text, truncated, commas, found);
    if (!found.empty() && anchor != "whole") break;
  }
  return found.Take();
}

std::optional<Restatement> FindRestatement(std::string_view text, bool truncated,
                                           const std::vector<std::string>& anchors,
                                           std::size_t end) {
  text = WithoutThought(text);
  const std::string_view tail = text.substr(end);
  const std::pair<std::string_view, Behind> places[] = {{"####", BehindHashes(tail)},
                                                        {"answer:", BehindAnswer(tail)}};
  std::optional<Restatement> last;
  std::size_t left = tail.size() + 1;  // behind `last`
  for (const auto& [anchor, behind] : places) {
    if (!behind || behind->size() >= left || std::ranges::find(anchors, anchor) == anchors.end())
      continue;
    const std::string_view sentence = Sentence(*behind);
    const auto number = PlainNumber(sentence);
    if (!number || (truncated && sentence.data() + sentence.size() == text.data() + text.size()))
      continue;
    left = behind->size();
    last = {std::string(anchor), CleanAnswer(*number),
            Retracts(tail.substr(0, tail.size() - left))};
  }
  return last;
}

}  // namespace buttress
