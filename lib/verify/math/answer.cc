#include "lib/verify/math/answer.h"

#include <absl/strings/ascii.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "lib/verify/extract.h"
#include "lib/verify/math/boxes.h"
#include "lib/verify/math/clean.h"
#include "lib/verify/math/statement.h"
#include "lib/verify/math/syntax/node.h"

namespace buttress {
namespace {

constexpr std::size_t kMaxWholeBytes = 300;
constexpr int kMaxWholeWords = 2;

// Returns the last number that is asserted.
std::optional<std::string_view> LastNumber(std::string_view text) {
  std::vector<std::string_view> numbers;
  for (std::size_t at = 0; const auto number = NumberAt(text, at, at);) numbers.push_back(*number);
  const auto last = std::find_if(numbers.rbegin(), numbers.rend(),
                                 [&](std::string_view number) { return IsAsserted(text, number); });
  return last == numbers.rend() ? std::nullopt : std::optional(*last);
}

// Returns the content of the last dollars or \( \). A closing dollar follows its expression
// directly, and no digit follows it, which excludes "$5 and $6".
std::optional<std::string_view> LastSpan(std::string_view text) {
  if (const std::size_t close = std::max(text.rfind("\\)") + 1, text.rfind("\\]") + 1); close > 0) {
    const char kind = text[close] == ')' ? '(' : '[';
    const std::size_t open = text.substr(0, close - 1).rfind(std::string("\\") + kind);
    if (open != std::string_view::npos) return text.substr(open + 2, close - 1 - open - 2);
  }
  std::size_t close = text.rfind('$');
  if (close == std::string_view::npos || close == 0) return std::nullopt;
  std::size_t end = close;
  if (text[close - 1] == '$') --end;  // $$ ... $$
  if (end == 0 || text[end - 1] == '\\') return std::nullopt;
  const bool display = end != close;
  if (!display && (absl::ascii_isspace(text[end - 1]) ||
                   (close + 1 < text.size() && absl::ascii_isdigit(text[close + 1]))))
    return std::nullopt;
  const std::size_t open = text.substr(0, end).rfind('$');
  if (open == std::string_view::npos || (open > 0 && text[open - 1] == '\\')) return std::nullopt;
  return text.substr(open + 1, end - open - 1);
}

// Returns the text from the first expression between dollars or \( \) to the last one: "$x = 1$ and
// $y = 2$".
std::optional<std::string_view> Mathematics(std::string_view text) {
  const auto last = LastSpan(text);
  if (!last) return std::nullopt;
  const std::size_t begin = std::min({text.find('$'), text.find("\\("), text.find("\\[")});
  const auto end = static_cast<std::size_t>(last->data() - text.data()) + last->size();
  return begin < end ? text.substr(begin, end - begin) : *last;
}

// Returns the end of the last `anchor` at the beginning of a line.
std::optional<std::string_view> BehindLineStart(std::string_view text, std::string_view anchor) {
  for (std::size_t end = text.size();;) {
    const std::size_t at = text.substr(0, end).rfind(anchor);
    if (at == std::string_view::npos) return std::nullopt;
    if (at == 0 || text[at - 1] == '\n') return text.substr(at + anchor.size());
    end = at + anchor.size() - 1;
  }
}

// Finds the text after the anchors of one text.
using Behind = std::optional<std::string_view>;

Behind BehindHashes(std::string_view text) {
  const Behind behind = BehindLast(text, "####");
  if (!behind) return std::nullopt;
  const std::string_view rest = Trim(*behind);  // "#### Step 2" is a heading, not an answer
  return rest.empty() || absl::ascii_isalpha(rest.front()) ? std::nullopt : behind;
}

// Returns the text after the last "answer is", "answer:" or "answer**:".
Behind BehindAnswerWord(std::string_view text) {
  constexpr std::string_view kWord = "answer";
  std::string_view head = text;
  while (const Behind rest = BehindLast(head, kWord)) {
    const auto at = static_cast<std::size_t>(rest->data() - text.data());
    for (const std::string_view sign : {" is", ":", "**:"}) {
      if (BehindLast(text.substr(at, sign.size()), sign)) return text.substr(at + sign.size());
    }
    head = text.substr(0, at - kWord.size());
  }
  return std::nullopt;
}

Behind BehindAnswer(std::string_view text) {
  const Behind word = BehindAnswerWord(text);
  const Behind letter = BehindLineStart(text, "A:");
  return word && (!letter || word->size() < letter->size()) ? word : letter;
}

bool IsFewWords(std::string_view text) {
  if (text.size() > kMaxWholeBytes || text.find('\n') != std::string_view::npos) return false;
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
  return words <= kMaxWholeWords;
}

class Candidates {
 public:
  Candidates(std::string_view text, bool truncated)
      : begin_(text.data()), end_(text.data() + text.size()), truncated_(truncated) {}

  void Add(std::string_view anchor, const std::optional<std::string_view>& span) {
    if (!span || (truncated_ && span->data() + span->size() == end_)) return;
    std::string text = CleanAnswer(FirstBytes(*span, kMaxAnswerBytes + 1));
    if (!text.empty())
      found_.push_back({std::string(anchor), std::move(text), false, EndOf(*span)});
  }

  // A closed box is complete even at the end of the text. An empty box is an answer that is wrong.
  void AddBoxes(AnswerCandidate boxes, std::string_view last) {
    boxes.end = EndOf(last);
    found_.push_back(std::move(boxes));
  }

  bool empty() const { return found_.empty(); }

  std::vector<AnswerCandidate> Take() { return std::move(found_); }

 private:
  std::size_t EndOf(std::string_view span) const {
    return static_cast<std::size_t>(span.data() + span.size() - begin_);
  }

  const char* begin_;
  const char* end_;
  bool truncated_;
  std::vector<AnswerCandidate> found_;
};

// Adds the candidates after an anchor: the sentence, else its mathematics, else its first number.
void AddBehind(std::string_view anchor, const Behind& behind, Candidates& found) {
  if (!behind) return;
  const std::string_view sentence = Sentence(*behind);
  found.Add(anchor, sentence);
  const auto add_asserted = [&](const std::optional<std::string_view>& span) {
    if (span && IsAsserted(sentence, *span)) found.Add(anchor, span);
  };
  std::size_t end = 0;
  add_asserted(Mathematics(sentence));
  add_asserted(NumberAt(sentence, 0, end));
}

void AddBoxes(std::string_view anchor, std::string_view text, Candidates& found) {
  const std::vector<std::string_view> boxes = LastBoxes(text);
  std::string joined;
  for (const std::string_view box : boxes) {
    if (!joined.empty()) joined += ", ";
    joined += CleanAnswer(FirstBytes(box, kMaxAnswerBytes + 1));
  }
  if (!boxes.empty())
    found.AddBoxes({std::string(anchor), std::move(joined), boxes.size() > 1, 0}, boxes.back());
}

void AddLastExpression(std::string_view anchor, std::string_view text, Candidates& found) {
  auto span = LastSpan(text);
  if (span && !IsAsserted(text, *span)) span.reset();
  const auto number = LastNumber(text);
  const bool span_later = span && (!number || span->data() + span->size() >= number->data());
  found.Add(anchor, span_later ? span : number);
  found.Add(anchor, number);
}

// Adds the candidates that the anchor finds in the text.
void AddBy(std::string_view anchor, std::string_view text, bool truncated, Candidates& found) {
  if (anchor == "boxed") return AddBoxes(anchor, text, found);
  if (anchor == "final answer is") return AddBehind(anchor, BehindLast(text, anchor), found);
  if (anchor == "####") return AddBehind(anchor, BehindHashes(text), found);
  if (anchor == "answer:") return AddBehind(anchor, BehindAnswer(text), found);
  if (truncated) return;
  if (anchor == "whole") {
    if (const std::string_view whole = Trim(text); IsFewWords(whole)) found.Add(anchor, whole);
  } else if (anchor == "last expression") {
    AddLastExpression(anchor, text, found);
  }
}

std::string_view WithoutThought(std::string_view text) {
  return BehindLast(text, "</think>").value_or(text);
}

}  // namespace

std::vector<AnswerCandidate> FindAnswers(std::string_view text, bool truncated,
                                         const std::vector<std::string>& anchors) {
  text = WithoutThought(text);
  Candidates found(text, truncated);
  for (const std::string& anchor : anchors) {
    AddBy(anchor, text, truncated, found);
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
