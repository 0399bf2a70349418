// Where a text, a response or a dataset's solution, gives its mathematical answer. Linear in the
// text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace buttress {

struct AnswerCandidate {
  std::string_view
      anchor;           // "boxed", "final answer is", "####", "answer:", "whole", "last expression"
  std::string text;     // cleaned of Markdown, special tokens and doubled backslashes
  bool joined = false;  // of several boxes: equal ones are one
};

// The readings of the answer, the best first: the first that parses is the answer. Empty: there is
// none. From the first that is there:
//   1. the last \boxed{} that closes, with those before it that only commas, "and", "or" or up to
//   three words separate: one list;
//   2. behind the last "final answer is": its sentence, else the mathematics in it, else its first
//   number;
//   3. behind the last "####", likewise;
//   4. behind the last "answer is", "answer:" or line that begins with "A:", likewise;
//   5. the whole text, if it is one line of few words; else the last expression between dollars or
//   \( \), or the last number,
//      whichever is later.
// What stands before the last </think> does not count. With `truncated`, what touches the end of
// the text is no answer.
std::vector<AnswerCandidate> FindAnswers(std::string_view text, bool truncated);

}  // namespace buttress
