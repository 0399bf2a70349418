// Where a text, a response or a dataset's solution, gives its mathematical answer. Linear in the
// text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace buttress {

struct AnswerCandidate {
  std::string anchor;   // by what it was found
  std::string text;     // cleaned of Markdown, special tokens and doubled backslashes
  bool joined = false;  // of several boxes: equal ones are one
};

// The readings of the answer, the best first: the first that parses is the answer. Empty: there is
// none. From the first of `anchors` that is there; what "whole" gives does not keep the anchors
// behind it from being looked for.
//   boxed            the last \boxed{} that closes, with those before it that only commas, "and", "or" or up to three words separate: one
//                    list
//   final answer is  behind the last one: its sentence, else the mathematics in it, else its first number
//   ####             behind the last one, likewise; a heading is none
//   answer:          behind the last "answer is", "answer:" or line that begins with "A:", likewise
//   whole            the whole text, if it is one line of few words
//   last expression  the last one between dollars or \( \), or the last number, whichever is later
// What stands before the last </think> does not count. With `truncated`, what touches the end of
// the text is no answer. REQUIRES: anchors of kMathAnchors.
std::vector<AnswerCandidate> FindAnswers(std::string_view text, bool truncated,
                                         const std::vector<std::string>& anchors);

}  // namespace buttress
