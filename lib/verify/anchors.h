// Where a text gives its answer: tags, boxes, and the words before an answer. One reader of each,
// which every verifier uses. All functions are linear in the text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace buttress {

struct VerifyRequest;

// The texts that open and close a tag: <answer> and </answer>.
struct TagMarks {
  explicit TagMarks(std::string_view tag)
      : open("<" + std::string(tag) + ">"), close("</" + std::string(tag) + ">") {}

  std::string open;
  std::string close;
};

// Returns the content of the last <tag>...</tag> that is closed, without white space at both ends.
std::optional<std::string_view> InTags(std::string_view text, std::string_view tag);

// Returns InTags(text, "answer").
std::optional<std::string_view> InAnswerTags(std::string_view text);

// Returns the text behind the last </think>.
std::string_view WithoutThought(std::string_view text);

// Returns the contents, from left to right, of the last \boxed{} or \fbox{} that closes and of the
// boxes before it that only commas, "and", "or" or up to three words separate from it.
std::vector<std::string_view> LastBoxes(std::string_view text);

// Returns the content of the last \boxed{} or \fbox{} that closes, without white space at both
// ends.
std::optional<std::string_view> InLastBox(std::string_view text);

// Returns whether a \boxed{ or \fbox{ does not close and none closes.
bool EndsInOpenBox(std::string_view text);

// Returns the text after the last "final answer is", as in Minerva's "The final answer is $5$. I
// hope it is correct."
std::optional<std::string_view> BehindFinalAnswer(std::string_view text);

// Returns the text after the last "####" of GSM8K; the Markdown heading "#### Step 2" is none.
std::optional<std::string_view> BehindHashes(std::string_view text);

// Returns the text after the last "answer is", "answer:", "answer**:", heading "### Answer", or
// line that begins with "A:".
std::optional<std::string_view> BehindAnswer(std::string_view text);

struct FinalAnswer {
  std::string_view text;    // without white space at both ends
  std::string_view anchor;  // "tags", "boxed", "answer is", "whole"
};

// Returns the first of these that the response contains: the last <answer>...</answer>; the last
// box that closes; the rest of the line after BehindAnswer; the whole response. Returns nullopt if
// that part reaches the end of a truncated response, or if a box opens and none closes.
std::optional<FinalAnswer> FindFinalAnswer(const VerifyRequest& request);

}  // namespace buttress
