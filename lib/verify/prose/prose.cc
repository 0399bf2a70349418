#include "lib/verify/prose/prose.h"

#include <absl/strings/ascii.h>

#include <algorithm>
#include <utility>

#include "lib/verify/extract.h"
#include "lib/verify/prose/prose_words.h"

namespace buttress {
namespace {

constexpr std::size_t kMaxSideBytes = 200;

// Returns whether the full stop at `at` belongs to an abbreviation before a number.
bool IsAbbreviation(std::string_view text, std::size_t at) {
  constexpr std::string_view kWords[] = {"approx", "approximately", "ca", "rs", "vs", "max", "min",
                                         "mr",     "mrs",           "ms", "dr"};
  std::size_t begin = at;
  while (begin > 0 && absl::ascii_isalpha(text[begin - 1])) --begin;
  if (begin == at) return false;
  if (at - begin == 1 && begin > 0 && text[begin - 1] == '.') return true;  // i.e.
  return std::ranges::find(kWords, LowerAscii(text.substr(begin, at - begin))) != std::end(kWords);
}

// Returns whether the sentence goes on behind the end of a line at `at`: before a blank line or a
// capital it does not, and before a number only after a word that asks for one ("is", "than").
bool GoesOn(std::string_view text, std::size_t at) {
  const std::size_t last = text.substr(0, at).find_last_not_of(" \t\r");
  const std::size_t next = text.find_first_not_of(" \t\r", at + 1);
  if (last == std::string_view::npos || next == std::string_view::npos || text[next] == '\n')
    return false;
  if (absl::ascii_islower(text[next])) return absl::ascii_isalpha(text[last]) || text[last] == ',';
  std::size_t begin = last + 1;
  while (begin > 0 && (absl::ascii_isalpha(text[begin - 1]) || text[begin - 1] == '\'')) --begin;
  const std::string word = LowerAscii(text.substr(begin, last + 1 - begin));
  return !absl::ascii_isupper(text[next]) &&
         ((ProseClasses(word) & ~(kQuantityWord | kConclusionWord)) != 0 || word == "than" ||
          word == "least" || word == "most" || word == "of" || word == "to" || word == "and" ||
          word == "or");
}

bool EndsSentence(std::string_view text, std::size_t at) {
  if (text[at] == '\n') return !GoesOn(text, at);
  if (std::string_view(".;!?").find(text[at]) == std::string_view::npos) return false;
  if (at > 0 && text[at - 1] == '\\') return false;  // \; and \! are blanks
  if (at > 0 && text.substr(at - 1).starts_with(".. ") && at + 2 < text.size() &&
      absl::ascii_islower(text[at + 2]))
    return false;  // an ellipsis
  const std::string_view behind = text.substr(at + 1);
  if (text[at] == '.' && (behind.starts_with("\\]") || behind.starts_with("\\end{"))) return true;
  const bool spaced = at + 1 == text.size() || absl::ascii_isspace(text[at + 1]) ||
                      std::string_view("*\"')$").find(text[at + 1]) != std::string_view::npos;
  return spaced && !(text[at] == '.' && IsAbbreviation(text, at));
}

constexpr std::pair<std::string_view, std::string_view> kCommandSigns[] = {
    {"approx", "≈"},  {"sim", "≈"},         {"simeq", "≈"},      {"ne", "≠"},
    {"neq", "≠"},     {"le", "<"},          {"leq", "<"},        {"leqslant", "<"},
    {"ge", "<"},      {"geq", "<"},         {"geqslant", "<"},   {"lt", "<"},
    {"gt", "<"},      {"to", "="},          {"rightarrow", "="}, {"Rightarrow", "="},
    {"implies", "="}, {"therefore", "="},   {"iff", "="},        {"Longrightarrow", "="},
    {"equiv", "="},   {"times", "*"},       {"cdot", "*"},       {"div", "*"},
    {"pm", "*"},      {"mp", "*"},          {"text", ""},        {"textbf", ""},
    {"textit", ""},   {"mathrm", ""},       {"mathbf", ""},      {"mathit", ""},
    {"boxed", ""},    {"fbox", ""},         {"left", ""},        {"right", ""},
    {"quad", ""},     {"displaystyle", ""}, {"qquad", ""},       {"mbox", ""}};

constexpr std::pair<std::string_view, std::string_view> kCharacterSigns[] = {
    {"≈", "≈"},  {"≃", "≈"}, {"~", "≈"},  {"≠", "≠"}, {"≤", "<"}, {"≥", "<"}, {"<", "<"},
    {">", "<"},  {"=", "="}, {"→", "="},  {"⇒", "="}, {"∴", "="}, {"×", "*"}, {"·", "*"},
    {"÷", "*"},  {"+", "*"}, {"/", "/"},  {"^", "^"}, {"±", "*"}, {"−", "*"}, {"%", "%"},
    {",", ","},  {":", ":"}, {"!", "\\"}, {"&", "|"}, {"•", "|"}, {"#", "|"}, {"√", "\\"},
    {"π", "\\"}, {"°", ""},  {"€", ""},   {"£", ""},  {"“", ""},  {"”", ""}};

class ProseReader {
 public:
  ProseReader(std::string_view text, ProseValues values) : text_(text), values_(values) {}

  std::vector<ProseToken> Take() {
    while (at_ < text_.size()) Read();
    return std::move(tokens_);
  }

 private:
  void Read() {
    const char c = text_[at_];
    if (c == '$' && Mathematics()) return;
    if (c == ' ' || c == '$' || c == '.' || c == '(' || c == ')') {
      ++at_;
      return;
    }
    if (absl::ascii_isalpha(c)) return Word();
    if (absl::ascii_isdigit(c)) return Number();
    if (c == '\\') return Command();
    if (c == '-' || text_.substr(at_).starts_with("–") || text_.substr(at_).starts_with("—"))
      return Dash(c == '-' ? 1 : 3);
    if (c == '*' || c == '|') return StarOrBar(c);
    if (text_.substr(at_).starts_with("->") || text_.substr(at_).starts_with("=>"))
      return Sign("=", 2);
    if (text_.substr(at_).starts_with(">=") || text_.substr(at_).starts_with("<="))
      return Sign("<", 2);
    for (const auto& [character, sign] : kCharacterSigns) {
      if (text_.substr(at_).starts_with(character)) return Sign(sign, character.size());
    }
    ++at_;
  }

  // Reads an equation between dollars as one value, and a sum behind "of" and the like as a word:
  // what they say is no part of the sentence. A closing dollar stands as in spans.h.
  bool Mathematics() {
    const std::size_t close = text_.find('$', at_ + 1);
    if (close == std::string_view::npos || close < at_ + 2 || text_[close - 1] == '\\')
      return false;
    const std::string_view inside = text_.substr(at_ + 1, close - at_ - 1);
    if (absl::ascii_isspace(inside.front()) ||
        std::string_view(" \t\n=+-*/").find(inside.back()) != std::string_view::npos ||
        (close + 1 < text_.size() && absl::ascii_isdigit(text_[close + 1])))
      return false;
    const bool relates = inside.find_first_of("=<>") != std::string_view::npos;
    const bool adds = inside.find_first_of("+-(") != std::string_view::npos &&
                      std::ranges::any_of(inside, absl::ascii_isalpha);
    const bool behind = !tokens_.empty() && (IsWordBefore("of") || IsWordBefore("by") ||
                                             IsWordBefore("when") || IsWordBefore("that"));
    if (!relates && !(adds && behind)) return false;
    if (!relates) tokens_.push_back({ProseToken::Kind::kWord, "expression", false});
    Sign(relates ? "≡" : "", close + 1 - at_);
    if (inside.back() == ',') Sign(",", 0);
    return true;
  }

  bool IsWordBefore(std::string_view word) const {
    return tokens_.back().kind == ProseToken::Kind::kWord && tokens_.back().text == word;
  }

  void Sign(std::string_view sign, std::size_t length) {
    at_ += length;
    if (!sign.empty()) tokens_.push_back({ProseToken::Kind::kSign, std::string(sign), false});
  }

  void Word() {
    std::size_t end = at_;
    const auto inside = [&](char c) {
      return (c == '-' || c == '\'') && end + 1 < text_.size() &&
             absl::ascii_isalpha(text_[end + 1]);
    };
    while (end < text_.size() && (absl::ascii_isalpha(text_[end]) || inside(text_[end]))) ++end;
    const std::string_view word = text_.substr(at_, end - at_);
    if (values_ == ProseValues::kLetters && IsOptionLetter(text_, at_)) {
      tokens_.push_back({ProseToken::Kind::kNumber, std::string(word), true});
      at_ = end;
      return;
    }
    const bool capital =
        absl::ascii_isupper(word[0]) && (word.size() == 1 || !absl::ascii_isupper(word[1]));
    at_ = end;
    Contracted(LowerAscii(word), capital);
  }

  // Adds the word, and of a contraction both: "it's", "they're", "the answer's 5".
  void Contracted(std::string word, bool capital) {
    constexpr std::pair<std::string_view, std::string_view> kVerbs[] = {
        {"'s", "is"},    {"'re", "are"},  {"'m", "am"},
        {"'ve", "have"}, {"'ll", "will"}, {"'d", "would"}};
    constexpr std::string_view kSubjects[] = {"it",  "that", "this", "there", "he",
                                              "she", "what", "here", "who",   "which"};
    std::string_view verb;
    for (const auto& [ending, full] : kVerbs) {
      if (!word.ends_with(ending)) continue;
      const std::string_view subject =
          std::string_view(word).substr(0, word.size() - ending.size());
      if (ending == "'s" && std::ranges::find(kSubjects, subject) == std::end(kSubjects) &&
          !ValueFollows())
        continue;
      verb = full;
      word.resize(subject.size());
      break;
    }
    tokens_.push_back({ProseToken::Kind::kWord, std::move(word), capital});
    if (!verb.empty()) tokens_.push_back({ProseToken::Kind::kWord, std::string(verb), false});
  }

  // Whether a value stands behind a blank, or the text ends as it does before a value.
  bool ValueFollows() const {
    const std::size_t next = text_.find_first_not_of(" $*\\(", at_);
    return next == std::string_view::npos || absl::ascii_isdigit(text_[next]);
  }

  void Number() {
    std::size_t end = at_;
    const auto inside = [&](char c) {
      return (c == '.' || c == ',') && end + 1 < text_.size() &&
             absl::ascii_isdigit(text_[end + 1]);
    };
    while (end < text_.size() && (absl::ascii_isdigit(text_[end]) || inside(text_[end]))) ++end;
    tokens_.push_back(
        {values_ == ProseValues::kNumbers ? ProseToken::Kind::kNumber : ProseToken::Kind::kWord,
         std::string(text_.substr(at_, end - at_)), false});
    at_ = end;
  }

  void Command() {
    std::size_t end = at_ + 1;
    while (end < text_.size() && absl::ascii_isalpha(text_[end])) ++end;
    const std::string_view name = text_.substr(at_ + 1, end - at_ - 1);
    if (name.empty()) {
      const bool percent = text_.substr(at_).starts_with("\\%");
      return Sign(percent ? "%" : "", std::min<std::size_t>(2, text_.size() - at_));
    }
    if (name == "begin" || name == "end") {  // an environment
      end = std::min(text_.find('}', end), text_.size() - 1);
      return Sign("|", end + 1 - at_);
    }
    const auto* const known = std::ranges::find(
        kCommandSigns, name, &std::pair<std::string_view, std::string_view>::first);
    Sign(known == std::end(kCommandSigns) ? "\\" : known->second, name.size() + 1);
  }

  bool BlankBefore() const { return at_ == 0 || absl::ascii_isspace(text_[at_ - 1]); }

  bool BlankBehind(std::size_t length) const {
    return at_ + length < text_.size() && absl::ascii_isspace(text_[at_ + length]);
  }

  // A dash between words or blanks separates clauses; between values it is a sign.
  void Dash(std::size_t length) {
    const bool value = !tokens_.empty() && tokens_.back().kind == ProseToken::Kind::kNumber;
    const bool em = text_.substr(at_).starts_with("—");
    if (at_ > 0 && text_[at_ - 1] == '$' && at_ + 1 < text_.size() &&
        absl::ascii_isalpha(text_[at_ + 1]))
      return Sign("", length);  // the $y$-coordinate
    Sign(em || (BlankBefore() && BlankBehind(length) && !value) ? "|" : "*", length);
  }

  // A star is an operator between operands, else emphasis.
  void StarOrBar(char c) {
    if (c == '|') return Sign(BlankBefore() || BlankBehind(1) ? "|" : "\\", 1);
    const bool operand = !BlankBefore() || BlankBehind(1);
    const bool doubled = text_.substr(at_).starts_with("**");
    const bool value = !tokens_.empty() && tokens_.back().kind != ProseToken::Kind::kWord;
    Sign(operand && !doubled && value ? "*" : "", doubled ? 2 : 1);
  }

  std::string_view text_;
  ProseValues values_;
  std::size_t at_ = 0;
  std::vector<ProseToken> tokens_;
};

}  // namespace

std::vector<ProseToken> ReadProse(std::string_view text, ProseValues values) {
  constexpr std::string_view kApostrophe = "’";
  std::string plain(text);
  for (std::size_t at = plain.find(kApostrophe); at != std::string::npos;
       at = plain.find(kApostrophe, at))
    plain.replace(at, kApostrophe.size(), "'");
  for (std::size_t open = plain.find("<<"); open != std::string::npos; open = plain.find("<<")) {
    const std::size_t close = plain.find(">>", open);
    if (close == std::string::npos) break;
    plain.erase(open, close + 2 - open);
  }
  return ProseReader(plain, values).Take();
}

std::size_t SentenceEnd(std::string_view text, std::size_t at) {
  while (at < text.size() && !EndsSentence(text, at)) ++at;
  return std::min(at + 1, text.size());
}

bool IsOptionLetter(std::string_view text, std::size_t at) {
  const auto joins = [&](std::size_t i) {
    const auto c = static_cast<unsigned char>(text[i]);
    return absl::ascii_isalnum(c) || c == '_' || c >= 0x80 ||
           (std::string_view("'-+=^\\").find(text[i]) != std::string_view::npos);
  };
  if (text[at] < 'A' || text[at] > 'J' || (at > 0 && joins(at - 1)) ||
      (at + 1 < text.size() && joins(at + 1)))
    return false;
  if (text[at] != 'A' && text[at] != 'I') return true;
  std::size_t begin = at + 1;
  while (begin < text.size() && text[begin] == ' ') ++begin;
  std::size_t end = begin;
  while (end < text.size() && absl::ascii_islower(text[end])) ++end;
  const std::string_view word = text.substr(begin, end - begin);
  if (begin == at + 1 || word.empty()) return true;
  if (text[at] == 'I') return word == "is" || word == "and" || word == "or";
  constexpr unsigned kBehindLetter =
      kCopulaWord | kContrastWord | kPhraseWord | kModalWord | kHedgeWord | kDenialWord;
  return word == "and" || word == "or" || (ProseClasses(word) & kBehindLetter) != 0;
}

std::size_t SentenceBegin(std::string_view text, std::size_t at) {
  std::size_t begin = at;
  while (begin > 0 && at - begin < kMaxSideBytes && !EndsSentence(text, begin - 1)) --begin;
  return begin;
}

ProseAround SentenceAround(std::string_view text, std::string_view span, ProseValues values) {
  const auto first = static_cast<std::size_t>(span.data() - text.data());
  const std::size_t begin = SentenceBegin(text, first);
  std::size_t end = first + span.size();
  const std::size_t last = end;
  while (end < text.size() && end - last < kMaxSideBytes && !EndsSentence(text, end)) ++end;
  return {ReadProse(text.substr(begin, first - begin), values),
          ReadProse(text.substr(last, end - last), values), end < text.size() && text[end] == '?'};
}

}  // namespace buttress
