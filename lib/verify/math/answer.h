// Locates the mathematical answer of a text: a response or a dataset's solution. Linear in the
// text.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/verify/math/syntax/lexer.h"

namespace buttress {

struct AnswerCandidate {
  std::string anchor;    // the anchor that located it
  std::string text;      // without Markdown, special tokens and doubled backslashes
  bool joined = false;   // several boxes, of which equal ones count once
  std::size_t end = 0;   // of its place in the text, behind the last </think>
  bool near = false;     // the text calls it an approximation
  bool refused = false;  // the text denies or doubts it, so that it has no value
};

// Returns the candidates of the answer, the best first; the first that parses is the answer. Empty
// if there is none. The candidates come from the first of `anchors` that the text contains, except
// that anchors after "whole" are searched as well.
//
//   boxed            the last \boxed{} that closes, together with the boxes before it that only
//                    commas, "and", "or" or up to three words separate, as one list; refused if
//                    one opens and none closes
//   final answer is  after the last one: its sentence, else the mathematics in the sentence, else
//                    the first number that it states (assertion.h)
//   ####             after the last one, by the same rules; a heading does not count
//   answer:          after the last "answer is", "answer:", heading "### Answer" or line that
//                    begins with "A:", by the same rules
//   whole            the whole text, if it is one line of few words
//   last expression  the last number, or the last expression between dollars or \( \), that the
//                    text states; none if a later one is doubted, or if it is denied later
//
// "whole" and "last expression" are those of the last <answer>...</answer>, if there is one. The
// text before the last </think> is ignored. If `truncated`, an answer that reaches the end of the
// text does not count. `commas`: how a comma in a number is read. REQUIRES: anchors are among
// kMathAnchors.
std::vector<AnswerCandidate> FindAnswers(std::string_view text, bool truncated,
                                         const std::vector<std::string>& anchors,
                                         CommaReading commas = CommaReading::kThousands);

// A number that the text gives as the answer behind another answer.
struct Restatement {
  std::string anchor;
  std::string number;
  bool retracts = false;  // the text between the two takes the first one back
};

// Returns the last restatement behind the candidate that ends at `end`: after "####" or "answer:",
// where it is among `anchors`, stands a number and nothing else (PlainNumber). One at the end of a
// truncated text does not count.
std::optional<Restatement> FindRestatement(std::string_view text, bool truncated,
                                           const std::vector<std::string>& anchors,
                                           std::size_t end);

}  // namespace buttress
