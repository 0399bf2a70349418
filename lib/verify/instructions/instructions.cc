#include "lib/verify/instructions/instructions.h"

#include <re2/re2.h>

#include <algorithm>
#include <iterator>

#include "lib/base/text/bounded_json.h"
#include "lib/verify/extract.h"
#include "lib/verify/instructions/arguments.h"
#include "lib/verify/instructions/text_counts.h"

namespace buttress {
namespace {

using Text = std::string_view;

// Returns `pattern` with case ignored.
std::string AnyCase(const std::string& text) { return "(?i)" + RE2::QuoteMeta(text); }

std::int64_t Size(const std::vector<Text>& parts) {
  return static_cast<std::int64_t>(parts.size());
}

bool IsBlank(Text text) { return Trim(text).empty(); }

bool KeywordsExistence(Text response, InstructionArguments& arguments) {
  const auto keywords = arguments.Texts("keywords");
  return std::all_of(keywords.begin(), keywords.end(),
                     [&](const auto& k) { return CountMatches(response, AnyCase(k)) > 0; });
}

bool KeywordsFrequency(Text response, InstructionArguments& arguments) {
  const std::string keyword = arguments.Text("keyword");
  return !keyword.empty() &&
         arguments.Holds(CountMatches(response, AnyCase(keyword)), "frequency", "relation");
}

bool ForbiddenWords(Text response, InstructionArguments& arguments) {
  const auto words = arguments.Texts("forbidden_words");
  return std::none_of(words.begin(), words.end(), [&](const auto& word) {
    return CountMatches(response, "(?i)\\b" + RE2::QuoteMeta(word) + "\\b") > 0;
  });
}

bool LetterFrequency(Text response, InstructionArguments& arguments) {
  const std::string letter = arguments.Text("letter");
  return !letter.empty() &&
         arguments.Holds(CountMatches(response, AnyCase(letter)), "let_frequency", "let_relation");
}

bool NumberSentences(Text response, InstructionArguments& arguments) {
  return arguments.Holds(CountSentences(response), "num_sentences", "relation");
}

bool NumberWords(Text response, InstructionArguments& arguments) {
  return arguments.Holds(CountWords(response), "num_words", "relation");
}

// Paragraphs between *** may be blank only at the ends of the text.
bool NumberParagraphs(Text response, InstructionArguments& arguments) {
  const auto paragraphs = Split(response, "***");
  std::int64_t count = Size(paragraphs);
  for (std::size_t i = 0; i < paragraphs.size(); ++i) {
    if (!IsBlank(paragraphs[i])) continue;
    if (i != 0 && i + 1 != paragraphs.size()) return false;
    --count;
  }
  return count == arguments.Count("num_paragraphs");
}

std::string FirstWord(Text paragraph) {
  paragraph = Trim(paragraph);
  paragraph = paragraph.substr(0, paragraph.find_first_of(" \t\r\n\v\f"));
  while (paragraph.starts_with('\'') || paragraph.starts_with('"')) paragraph.remove_prefix(1);
  return LowerAscii(paragraph.substr(0, paragraph.find_first_of(".,?!'\"")));
}

bool NthParagraphFirstWord(Text response, InstructionArguments& arguments) {
  const auto paragraphs = Split(response, "\n\n");
  const auto filled =
      std::count_if(paragraphs.begin(), paragraphs.end(), [](Text p) { return !IsBlank(p); });
  const std::int64_t nth = arguments.Count("nth_paragraph");
  const std::int64_t count = arguments.Count("num_paragraphs");
  const std::string word = LowerAscii(arguments.Text("first_word"));
  if (nth < 1 || nth > filled || filled != count) return false;
  const Text paragraph = paragraphs[static_cast<std::size_t>(nth - 1)];
  return !IsBlank(paragraph) && FirstWord(paragraph) == word;
}

bool NumberPlaceholders(Text response, InstructionArguments& arguments) {
  return CountMatches(response, "\\[.*?\\]") >= arguments.Count("num_placeholders");
}

bool Postscript(Text response, InstructionArguments& arguments) {
  const std::string marker = arguments.Text("postscript_marker");
  const std::string pattern = marker == "P.P.S"  ? "(?i)p\\.\\s?p\\.\\s?s"
                              : marker == "P.S." ? "(?i)p\\.\\s?s\\."
                                                 : AnyCase(marker);
  return CountMatches(response, pattern) > 0;
}

bool NumberBulletLists(Text response, InstructionArguments& arguments) {
  return CountMatches(response, "^\\s*\\*[^\\*].*$") + CountMatches(response, "^\\s*-.*$") ==
         arguments.Count("num_bullets");
}

bool ConstrainedResponse(Text response, InstructionArguments& /*arguments*/) {
  return CountMatches(response, "My answer is (?:yes|no|maybe)\\.") > 0;
}

bool NumberHighlightedSections(Text response, InstructionArguments& arguments) {
  std::int64_t count = 0;
  for (const char* pattern : {"\\*[^\\n\\*]*\\*", "\\*\\*[^\\n\\*]*\\*\\*"}) {
    for (const Text match : FindMatches(response, pattern))
      count += match.find_first_not_of("* \t") != Text::npos ? 1 : 0;
  }
  return count >= arguments.Count("num_highlights");
}

bool MultipleSections(Text response, InstructionArguments& arguments) {
  const std::string splitter = arguments.Text("section_spliter");
  return CountMatches(response, "\\s?" + RE2::QuoteMeta(splitter) + "\\s?\\d+\\s?") >=
         arguments.Count("num_sections");
}

bool JsonFormat(Text response, InstructionArguments& /*arguments*/) {
  response = Trim(response);
  for (const Text fence : {"```json", "```Json", "```JSON", "```"}) {
    if (response.starts_with(fence)) response.remove_prefix(fence.size());
  }
  if (response.ends_with("```")) response.remove_suffix(3);
  return ParseBoundedJson(Trim(response)).ok();
}

bool Title(Text response, InstructionArguments& /*arguments*/) {
  const auto titles = FindMatches(response, "<<[^\\n]+>>");
  return std::any_of(titles.begin(), titles.end(),
                     [](Text t) { return t.find_first_not_of("<> \t") != Text::npos; });
}

bool TwoResponses(Text response, InstructionArguments& /*arguments*/) {
  const auto parts = Split(response, "******");
  std::vector<Text> filled;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!IsBlank(parts[i])) {
      filled.push_back(Trim(parts[i]));
    } else if (i != 0 && i + 1 != parts.size()) {
      return false;
    }
  }
  return filled.size() == 2 && filled[0] != filled[1];
}

bool RepeatPrompt(Text response, InstructionArguments& arguments) {
  return LowerAscii(Trim(response))
      .starts_with(LowerAscii(Trim(arguments.Text("prompt_to_repeat"))));
}

bool EndChecker(Text response, InstructionArguments& arguments) {
  response = Trim(response);
  while (response.starts_with('"')) response.remove_prefix(1);
  while (response.ends_with('"')) response.remove_suffix(1);
  return LowerAscii(response).ends_with(LowerAscii(Trim(arguments.Text("end_phrase"))));
}

bool Quotation(Text response, InstructionArguments& /*arguments*/) {
  response = Trim(response);
  return response.size() > 1 && response.front() == '"' && response.back() == '"';
}

bool CapitalWordFrequency(Text response, InstructionArguments& arguments) {
  return arguments.Holds(CountCapitalWords(response), "capital_frequency", "capital_relation");
}

bool EnglishCapital(Text response, InstructionArguments& /*arguments*/) {
  return CountMatches(response, "\\p{Lu}") > 0 && CountMatches(response, "\\p{Ll}") == 0;
}

bool EnglishLowercase(Text response, InstructionArguments& /*arguments*/) {
  return CountMatches(response, "\\p{Ll}") > 0 && CountMatches(response, "\\p{Lu}") == 0;
}

bool NoComma(Text response, InstructionArguments& /*arguments*/) {
  return response.find(',') == Text::npos;
}

struct Instruction {
  std::string_view id;
  bool (*follows)(Text response, InstructionArguments& arguments);
};

constexpr Instruction kInstructions[] = {
    {"keywords:existence", KeywordsExistence},
    {"keywords:frequency", KeywordsFrequency},
    {"keywords:forbidden_words", ForbiddenWords},
    {"keywords:letter_frequency", LetterFrequency},
    {"length_constraints:number_sentences", NumberSentences},
    {"length_constraints:number_paragraphs", NumberParagraphs},
    {"length_constraints:number_words", NumberWords},
    {"length_constraints:nth_paragraph_first_word", NthParagraphFirstWord},
    {"detectable_content:number_placeholders", NumberPlaceholders},
    {"detectable_content:postscript", Postscript},
    {"detectable_format:number_bullet_lists", NumberBulletLists},
    {"detectable_format:constrained_response", ConstrainedResponse},
    {"detectable_format:number_highlighted_sections", NumberHighlightedSections},
    {"detectable_format:multiple_sections", MultipleSections},
    {"detectable_format:json_format", JsonFormat},
    {"detectable_format:title", Title},
    {"combination:two_responses", TwoResponses},
    {"combination:repeat_prompt", RepeatPrompt},
    {"startend:end_checker", EndChecker},
    {"startend:quotation", Quotation},
    {"change_case:capital_word_frequency", CapitalWordFrequency},
    {"change_case:english_capital", EnglishCapital},
    {"change_case:english_lowercase", EnglishLowercase},
    {"punctuation:no_comma", NoComma},
};

}  // namespace

Result<bool> FollowsInstruction(const std::string& id, const nlohmann::json& kwargs,
                                std::string_view response) {
  const auto* const found = std::find_if(std::begin(kInstructions), std::end(kInstructions),
                                         [&](const Instruction& i) { return i.id == id; });
  if (found == std::end(kInstructions))
    return InvalidArgument("instruction '" + id + "' is not one that can be checked");
  InstructionArguments arguments(kwargs);
  const bool follows = found->follows(response, arguments);
  if (!arguments.status().ok()) return arguments.status().Annotate(id);
  return follows;
}

}  // namespace buttress
