#include "lib/verify/instructions.h"

#include <fmt/core.h>
#include <re2/re2.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "lib/base/report/check.h"
#include "lib/base/text/bounded_json.h"
#include "lib/verify/extract.h"
#include "lib/verify/verifiers.h"

namespace buttress {
namespace {

using nlohmann::json;
using Text = std::string_view;

// Reads the arguments of an instruction, checks their types and keeps the first error.
class InstructionArguments {
 public:
  // REQUIRES: `kwargs` is an object and outlives this instance.
  explicit InstructionArguments(const json& kwargs) : kwargs_(kwargs) {}

  // Count, Text and Texts return 0, "" or {} if the argument is missing or of another type;
  // status() is then an error.
  std::int64_t Count(const char* name) {
    const json* const value = Find(name, "a number");
    if (value == nullptr) return 0;
    constexpr double kMost = 1e9;
    const double number = value->get<double>();  // rows of IFEval contain 3.0 for 3
    const auto count = number >= 0 && number <= kMost ? static_cast<std::int64_t>(number) : -1;
    if (static_cast<double>(count) == number) return count;
    Refuse("argument '{}' = {}; expected an integer, 0 or more", name, value->dump());
    return 0;
  }

  std::string Text(const char* name) {
    const json* const value = Find(name, "a text");
    return value == nullptr ? "" : value->get<std::string>();
  }

  std::vector<std::string> Texts(const char* name) {
    std::vector<std::string> texts;
    const json* const value = Find(name, "a list of texts");
    for (const json& item : value == nullptr ? json::array() : *value) {
      if (IsText(item)) {
        texts.push_back(item.get<std::string>());
      } else {
        Refuse("argument '{}' holds {}; expected texts", name, item.dump());
      }
    }
    return texts;
  }

  // Returns whether `found` and the argument `name` satisfy the relation in the argument
  // `relation_name`.
  bool Holds(std::int64_t found, const char* name, const char* relation_name) {
    const std::int64_t count = Count(name);
    const std::string relation = Text(relation_name);
    if (relation == "at least") return found >= count;
    if (relation == "less than") return found < count;
    Refuse("argument '{}' = \"{}\"; expected \"at least\" or \"less than\"", relation_name,
           relation);
    return false;
  }

  const Status& status() const { return status_; }

 private:
  static bool IsText(const json& value) {
    return value.is_string() && !value.get_ref<const std::string&>().empty();
  }

  template <class... Values>
  void Refuse(fmt::format_string<Values...> what, Values&&... values) {
    if (status_.ok()) status_ = InvalidArgument(fmt::format(what, std::forward<Values>(values)...));
  }

  const json* Find(const char* name, std::string_view expected) {
    const auto found = kwargs_.find(name);
    const bool absent = found == kwargs_.end();
    const bool fits = !absent && (expected == "a text"     ? IsText(*found)
                                  : expected == "a number" ? found->is_number()
                                                           : found->is_array() && !found->empty());
    if (fits) return &*found;
    Refuse("argument '{}' = {}; expected {}", name, absent ? "nothing" : found->dump(), expected);
    return nullptr;
  }

  const json& kwargs_;
  Status status_;
};

// Returns the parts between occurrences of `separator`, including empty ones.
std::vector<std::string_view> Split(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + separator.size());
  }
}

// Returns the matches of an RE2 pattern (UTF-8; ^ and $ match at lines), without overlap. REQUIRES:
// `pattern` compiles.
std::vector<std::string_view> FindMatches(std::string_view text, const std::string& pattern) {
  RE2::Options options;
  options.set_log_errors(false);
  const RE2 compiled("(?m)(" + pattern + ")", options);
  BUTTRESS_CHECK(compiled.ok(), compiled.error());
  re2::StringPiece rest(text.data(), text.size());
  std::vector<std::string_view> matches;
  re2::StringPiece match;
  while (RE2::FindAndConsume(&rest, compiled, &match)) {
    matches.emplace_back(match.data(), match.size());
    if (!match.empty()) continue;
    if (rest.empty()) break;
    rest.remove_prefix(1);
  }
  return matches;
}

std::int64_t CountMatches(std::string_view text, const std::string& pattern) {
  return static_cast<std::int64_t>(FindMatches(text, pattern).size());
}

// Counts runs of letters, digits and _.
std::int64_t CountWords(std::string_view text) { return CountMatches(text, "[\\pL\\pM\\pN_]+"); }

// Counts an unfinished sentence too.
std::int64_t CountSentences(std::string_view text) {
  const std::string_view whole = Trim(text);
  if (whole.empty()) return 0;
  const std::int64_t ends = CountMatches(whole, "[.!?]+[\"')\\]*_]*(?:\\s+|\\z)");
  const std::size_t last = whole.find_last_not_of("\"')]*_");
  const bool open = last == std::string_view::npos ||
                    std::string_view(".!?").find(whole[last]) == std::string_view::npos;
  return ends + (open ? 1 : 0);
}

std::int64_t CountCapitalWords(std::string_view text) {
  std::int64_t count = 0;
  for (const std::string_view word : FindMatches(text, "[\\pL\\pM\\pN_'-]+"))
    count += CountMatches(word, "\\p{Ll}") == 0 && CountMatches(word, "\\p{Lu}") > 0 ? 1 : 0;
  return count;
}

// Returns `pattern` with case ignored.
std::string AnyCase(const std::string& text) { return "(?i)" + RE2::QuoteMeta(text); }

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
  auto count = static_cast<std::int64_t>(paragraphs.size());
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

constexpr std::string_view kIds = "instruction_id_list";
constexpr std::string_view kArguments = "kwargs";
constexpr std::size_t kMaxInstructions = 64;

// Returns the row of instructions after checking that both lists have the same length.
Result<json> ReadRow(const VerifyRequest& request) {
  Result<json> row = ParseBoundedJson(request.answer);
  if (!row.ok() || !row->is_object() || !row->contains(kIds))
    row = ParseBoundedJson(request.extra_json);
  if (!row.ok() || !row->is_object() || !row->contains(kIds))
    return InvalidArgument("neither the answer nor the row has 'instruction_id_list'");
  json& ids = (*row)[kIds];
  if (!ids.is_array() || ids.empty() || ids.size() > kMaxInstructions)
    return InvalidArgument("'instruction_id_list' is not a list of 1 to 64 ids");
  json& arguments = (*row)[kArguments];
  if (arguments.is_null()) arguments = json::array();
  if (!arguments.is_array() || (!arguments.empty() && arguments.size() != ids.size()))
    return InvalidArgument("'kwargs' is not a list with an object for each instruction");
  while (arguments.size() < ids.size()) arguments.push_back(json::object());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (arguments[i].is_null()) arguments[i] = json::object();
    if (!ids[i].is_string() || !arguments[i].is_object())
      return InvalidArgument("instruction " + std::to_string(i) +
                             " is not an id with an object of arguments");
  }
  return row;
}

}  // namespace

Result<bool> FollowsInstruction(const std::string& id, const json& kwargs,
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

Verdict JudgeInstructions(const VerifyRequest& request, const RewardConfig& /*config*/) {
  const Result<json> row = ReadRow(request);
  if (!row.ok()) return Unscorable("instructions: " + row.status().message());
  const json& ids = (*row)[kIds];
  std::string broken;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto& id = ids[i].get_ref<const std::string&>();
    const Result<bool> follows = FollowsInstruction(id, (*row)[kArguments][i], request.response);
    if (!follows.ok()) return Unscorable("instructions: " + follows.status().message());
    if (!*follows) broken += (broken.empty() ? "not " : ", ") + id;
  }
  // As in IFEval, an empty response follows no instruction.
  if (Trim(request.response).empty()) return Wrong("empty", ids.dump());
  return broken.empty() ? Correct("", ids.dump()) : Wrong(broken, ids.dump());
}

}  // namespace buttress
