#include "lib/verify/anchors.h"

#include <absl/strings/ascii.h>

#include <algorithm>

#include "lib/verify/extract.h"
#include "lib/verify/verifier.h"

namespace buttress {
namespace {

using Behind = std::optional<std::string_view>;

constexpr std::size_t kMaxBetween = 60;  // bytes between boxes of one list
constexpr int kMaxWords = 3;
constexpr std::size_t kMaxBoxes = 64;

struct Box {
  std::size_t begin;  // of the command
  std::size_t end;    // after the closing brace
  std::string_view inside;
};

// Returns the length of the box command at `at` with the blanks after it; 0 if there is none.
std::size_t BoxCommand(std::string_view text, std::size_t at) {
  for (const std::string_view command : {"\\boxed", "\\fbox"}) {
    if (!text.substr(at).starts_with(command)) continue;
    std::size_t end = at + command.size();
    while (end < text.size() && text[end] == ' ') ++end;
    return end - at;
  }
  return 0;
}

// Returns the boxes that close, in the order of their ends. One pass with a stack of open braces.
std::vector<Box> ReadBoxes(std::string_view text) {
  struct Open {
    std::size_t at;
    std::size_t command;  // npos: the brace does not belong to a box
  };

  std::vector<Box> boxes;
  std::vector<Open> open;
  std::size_t box_brace = std::string_view::npos;
  std::size_t box_command = std::string_view::npos;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') {
      const std::size_t length = BoxCommand(text, i);
      if (length == 0) {
        // \{ and \} are characters. \\\\ before a letter is a command with a doubled backslash.
        if (i + 1 < text.size() && !absl::ascii_isalpha(text[i + 1]) && text[i + 1] != '\\') ++i;
        continue;
      }
      const std::size_t behind = i + length;
      if (behind < text.size() && text[behind] == '{') {
        box_brace = behind;
        box_command = i;
      } else if (behind < text.size() && text[behind] >= '0' && text[behind] <= '9') {
        boxes.push_back({i, behind + 1, text.substr(behind, 1)});  // TeX: \boxed 2
      }
      i = behind - 1;
    } else if (text[i] == '{') {
      open.push_back({i, i == box_brace ? box_command : std::string_view::npos});
    } else if (text[i] == '}' && !open.empty()) {
      const Open last = open.back();
      open.pop_back();
      if (last.command != std::string_view::npos)
        boxes.push_back({last.command, i + 1, text.substr(last.at + 1, i - last.at - 1)});
    }
  }
  return boxes;
}

// Returns whether the text between two boxes joins them to one list.
bool Joins(std::string_view between) {
  if (between.size() > kMaxBetween) return false;
  int words = 0;
  bool separates = false;
  for (std::size_t i = 0; i < between.size();) {
    if (absl::ascii_isalpha(between[i])) {
      std::size_t end = i;
      while (end < between.size() && absl::ascii_isalpha(between[end])) ++end;
      const std::string_view word = between.substr(i, end - i);
      const bool command = i > 0 && between[i - 1] == '\\';
      if (word == "and" || word == "or") separates = true;
      if (!command && ++words > kMaxWords) return false;
      i = end;
      continue;
    }
    if (between[i] == ',' || between[i] == ';') separates = true;
    if (std::string_view(" \t\r\n$,;\\{}()[]&!*").find(between[i]) == std::string_view::npos)
      return false;
    ++i;
  }
  return separates;
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

// Returns whether "answer" at `at` ends a heading: "### Final Answer", "**Answer**".
bool IsHeading(std::string_view text, std::size_t at) {
  const std::size_t line = text.substr(0, at).rfind('\n') + 1;
  std::string_view before = text.substr(line, at - line);
  const bool marked = before.starts_with('#') || before.starts_with('*');
  before.remove_prefix(std::min(before.find_first_not_of("#* "), before.size()));
  return marked && (before.empty() || LowerAscii(Trim(before)) == "final");
}

// Returns the text after the last "answer is", "answer:", "answer**:" or heading "### Answer".
Behind BehindAnswerWord(std::string_view text) {
  constexpr std::string_view kWord = "answer";
  std::string_view head = text;
  while (const Behind rest = BehindLast(head, kWord)) {
    const auto at = static_cast<std::size_t>(rest->data() - text.data());
    for (const std::string_view sign : {" is", ":", "**:"}) {
      if (BehindLast(text.substr(at, sign.size()), sign)) return text.substr(at + sign.size());
    }
    const std::size_t behind = std::min(text.find_first_not_of("* ", at), text.size());
    if (behind < text.size() && text[behind] == '\n' && IsHeading(text, at - kWord.size()))
      return text.substr(behind);
    head = text.substr(0, at - kWord.size());
  }
  return std::nullopt;
}

std::optional<FinalAnswer> AnnouncedAnswer(std::string_view text, bool truncated) {
  Behind behind = BehindAnswer(text);
  if (!behind) return std::nullopt;
  if (behind->starts_with("**")) behind->remove_prefix(2);  // **Answer:** B
  const std::size_t begin = behind->find_first_not_of(" \t\r\n:");
  if (begin == std::string_view::npos) return std::nullopt;
  const std::size_t end = behind->find('\n', begin);
  if (end == std::string_view::npos && truncated) return std::nullopt;
  return FinalAnswer{Trim(behind->substr(begin, end - begin)), "answer is"};
}

}  // namespace

std::optional<std::string_view> InTags(std::string_view text, std::string_view tag) {
  const auto [open, close] = TagMarks(tag);
  const std::size_t end = text.rfind(close);
  if (end == std::string_view::npos) return std::nullopt;
  const std::size_t begin = text.substr(0, end).rfind(open);
  if (begin == std::string_view::npos) return std::nullopt;
  return Trim(text.substr(begin + open.size(), end - begin - open.size()));
}

std::optional<std::string_view> InAnswerTags(std::string_view text) {
  return InTags(text, "answer");
}

std::string_view WithoutThought(std::string_view text) {
  return BehindLast(text, "</think>").value_or(text);
}

std::vector<std::string_view> LastBoxes(std::string_view text) {
  const std::vector<Box> boxes = ReadBoxes(text);
  std::vector<std::string_view> last;
  std::size_t begin = text.size();
  for (auto box = boxes.rbegin(); box != boxes.rend() && last.size() < kMaxBoxes; ++box) {
    if (!last.empty()) {
      if (box->end > begin) continue;  // nested in the box after it
      if (!Joins(text.substr(box->end, begin - box->end))) break;
    }
    last.push_back(box->inside);
    begin = box->begin;
  }
  std::reverse(last.begin(), last.end());
  return last;
}

std::optional<std::string_view> InLastBox(std::string_view text) {
  const std::vector<Box> boxes = ReadBoxes(text);
  return boxes.empty() ? std::nullopt : std::optional(Trim(boxes.back().inside));
}

bool EndsInOpenBox(std::string_view text) {
  const auto opens = [&](std::string_view box) { return text.find(box) != std::string_view::npos; };
  return (opens("\\boxed{") || opens("\\fbox{")) && ReadBoxes(text).empty();
}

Behind BehindFinalAnswer(std::string_view text) { return BehindLast(text, "final answer is"); }

Behind BehindHashes(std::string_view text) {
  const Behind behind = BehindLast(text, "####");
  if (!behind) return std::nullopt;
  const std::string_view rest = Trim(*behind);  // "#### Step 2" is a heading, not an answer
  return rest.empty() || absl::ascii_isalpha(rest.front()) ? std::nullopt : behind;
}

Behind BehindAnswer(std::string_view text) {
  const Behind word = BehindAnswerWord(text);
  const Behind letter = BehindLineStart(text, "A:");
  return word && (!letter || word->size() < letter->size()) ? word : letter;
}

std::optional<FinalAnswer> FindFinalAnswer(const VerifyRequest& request) {
  const std::string_view text = WithoutThought(request.response);
  if (const auto tagged = InAnswerTags(text)) return FinalAnswer{*tagged, "tags"};
  if (const auto box = InLastBox(text)) return FinalAnswer{*box, "boxed"};
  if (EndsInOpenBox(text)) return std::nullopt;
  if (const auto announced = AnnouncedAnswer(text, request.truncated)) return announced;
  if (request.truncated) return std::nullopt;
  return FinalAnswer{Trim(text), "whole"};
}

}  // namespace buttress
