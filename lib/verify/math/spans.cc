#include "lib/verify/math/spans.h"

#include <absl/strings/ascii.h>

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "lib/verify/extract.h"
#include "lib/verify/prose/clause.h"
#include "lib/verify/prose/prose.h"
#include "lib/verify/prose/sequel.h"

namespace buttress {
namespace {

constexpr std::size_t kNone = std::string_view::npos;
constexpr std::size_t kMaxRemarkBytes = 2048;

std::optional<std::string_view> LastDollars(std::string_view text) {
  std::size_t close = text.rfind('$');
  if (close == kNone || close == 0) return std::nullopt;
  std::size_t end = close;
  if (text[close - 1] == '$') --end;  // $$ ... $$
  if (end == 0 || text[end - 1] == '\\') return std::nullopt;
  const bool display = end != close;
  if (!display && close + 1 < text.size() && absl::ascii_isdigit(text[close + 1]))
    return std::nullopt;
  const std::size_t open = text.substr(0, end).rfind('$');
  if (open == kNone || (open > 0 && text[open - 1] == '\\')) return std::nullopt;
  const std::string_view inside = text.substr(open + 1, end - open - 1);
  const bool blank = !inside.empty() && absl::ascii_isspace(inside.back());
  return display || !blank || inside.find('\\') != kNone ? std::optional(inside) : std::nullopt;
}

std::optional<std::string_view> LastBrackets(std::string_view text) {
  const std::size_t close = std::max(text.rfind("\\)") + 1, text.rfind("\\]") + 1);
  if (close == 0) return std::nullopt;
  const char kind = text[close] == ')' ? '(' : '[';
  const std::size_t open = text.substr(0, close - 1).rfind(std::string("\\") + kind);
  if (open == kNone) return std::nullopt;
  return text.substr(open + 2, close - 1 - open - 2);
}

// Returns the rows of the last environment that aligns equations.
std::optional<std::string_view> LastRows(std::string_view text) {
  constexpr std::string_view kBegin = "\\begin{", kEnd = "\\end{";
  for (std::size_t end = text.rfind(kEnd); end != kNone && end > 0;
       end = text.substr(0, end).rfind(kEnd)) {
    std::string_view name = text.substr(end + kEnd.size());
    name = name.substr(0, std::min(name.find('}'), name.size()) + 1);
    const bool aligns = name.starts_with("align") || name.starts_with("eqnarray") ||
                        name.starts_with("gather") || name.starts_with("equation");
    if (!aligns) continue;
    const std::size_t open = text.substr(0, end).rfind(std::string(kBegin) + std::string(name));
    if (open == kNone) return std::nullopt;
    const std::size_t begin = open + kBegin.size() + name.size();
    return text.substr(begin, end - begin);
  }
  return std::nullopt;
}

// Returns the text without blanks, full stops and breaks of lines (\\\\) at its end.
std::string_view WithoutStop(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0) {
    if (absl::ascii_isspace(text[end - 1]) || text[end - 1] == '.') {
      --end;
    } else if (text.substr(0, end).ends_with("\\\\")) {
      end -= 2;
    } else {
      break;
    }
  }
  return text.substr(0, end);
}

// Returns the begin of the last bracket that opens a sentence and closes at the end of the text;
// npos if there is none.
std::size_t BracketAtEnd(std::string_view text) {
  if (!text.ends_with(".)") && !text.ends_with("!)") && !text.ends_with("?)")) return kNone;
  int depth = 0;
  for (std::size_t i = text.size(); i > 0 && text.size() - i < kMaxRemarkBytes; --i) {
    if (text[i - 1] == ')') ++depth;
    if (text[i - 1] != '(' || --depth > 0) continue;
    const std::string_view before = Trim(text.substr(0, i - 1));
    const bool opens = before.ends_with('.') || before.ends_with(".$") ||
                       before.ends_with(".\\]") || text.substr(0, i - 1).ends_with('\n');
    return opens ? i - 1 : kNone;
  }
  return kNone;
}

// Returns the begin of the last paragraph if it notes something and concludes nothing.
std::size_t NoteAtEnd(std::string_view text) {
  const std::size_t begin = text.rfind("\n\n");
  if (begin == kNone || text.size() - begin > kMaxRemarkBytes) return kNone;
  const std::vector<ProseToken> words = ReadProse(text.substr(begin));
  const bool notes = !words.empty() && OneOf(words[0], {"note", "notice", "alternatively"});
  const auto concludes = [](const ProseToken& word) { return Has(word, kSoWord | kAnswerWord); };
  return notes && std::ranges::none_of(words, concludes) ? begin : kNone;
}

}  // namespace

std::optional<MathSpan> LastSpan(std::string_view text) {
  std::optional<MathSpan> last;
  const auto keep = [&](const std::optional<std::string_view>& span, bool rows) {
    if (span && (!last || span->data() > last->text.data())) last = {WithoutStop(*span), rows};
  };
  keep(LastDollars(text), false);
  keep(LastBrackets(text), false);
  keep(LastRows(text), true);
  return last;
}

std::optional<std::string_view> Mathematics(std::string_view text) {
  const auto last = LastSpan(text);
  if (!last || last->rows) return std::nullopt;
  const std::size_t begin = std::min({text.find('$'), text.find("\\("), text.find("\\[")});
  const auto end = static_cast<std::size_t>(last->text.data() - text.data()) + last->text.size();
  return begin < end ? text.substr(begin, end - begin) : last->text;
}

std::optional<std::string_view> LastOfChain(std::string_view mathematics) {
  int depth = 0;
  std::size_t mark = kNone;  // the last mark of alignment
  for (std::size_t i = mathematics.size(); i > 0; --i) {
    const char c = mathematics[i - 1];
    if (c == '}') ++depth;
    if (c == '{') --depth;
    const std::string_view rest = mathematics.substr(i - 1);
    if (rest.starts_with("\\end{")) ++depth;
    if (rest.starts_with("\\begin{")) --depth;
    if (depth != 0) continue;
    const auto any = [&](std::initializer_list<std::string_view> signs) {
      return std::ranges::any_of(signs, [&](std::string_view s) { return rest.starts_with(s); });
    };
    // Another row, or no equation.
    if (any({"\\\\", "\\le", "\\ge", "\\approx", "\\sim", "<", ">"})) return std::nullopt;
    constexpr std::string_view kCongruent = "\\equiv";
    if (c == '&' && mark == kNone) mark = i;
    if (c != '=' && !rest.starts_with(kCongruent)) continue;
    std::string_view member = rest.substr(c == '=' ? 1 : kCongruent.size());
    if (mark != kNone) member = mathematics.substr(mark);  // "=\\text{ }&5"
    member = Trim(member.substr(0, std::min({member.find("\\pmod"), member.find("\\mod"),
                                             member.find("\\Rightarrow"), member.size()})));
    const auto is_letter = [](std::string_view side) {
      return side.size() == 1 && absl::ascii_isalpha(side[0]);
    };
    // 0 = k; n ≡ 5 (mod 7) says what n leaves, not what it is
    if (is_letter(member) || (c != '=' && is_letter(Trim(mathematics.substr(0, i - 1)))))
      return std::nullopt;
    return member;
  }
  return std::nullopt;
}

bool EndsInBound(std::string_view rows) {
  if (const std::size_t last = rows.rfind("\\\\"); last != kNone) rows = rows.substr(last);
  return rows.find_first_of("<>") != kNone || rows.find("\\ge") != kNone ||
         (rows.find("\\le") != kNone && rows.find("\\left") == kNone);
}

bool IsEquation(std::string_view mathematics) {
  if (mathematics.find_first_of("=<>") != kNone) return true;
  return std::ranges::any_of(
      std::initializer_list<std::string_view>{"\\le", "\\ge", "\\in ", "\\approx", "\\ne",
                                              "\\equiv"},
      [&](std::string_view sign) { return mathematics.find(sign) != kNone; });
}

bool IsOfFunctions(std::string_view equation) {
  const std::string_view left = equation.substr(0, std::min(equation.find('='), equation.size()));
  bool any = false;
  for (std::size_t i = 0; i < left.size();) {
    if (absl::ascii_isspace(left[i]) || left[i] == '+' || left[i] == '-') {
      ++i;
      continue;
    }
    if (!absl::ascii_isalpha(left[i]) || !left.substr(i + 1).starts_with('(')) return false;
    const std::size_t close = left.find(')', i);
    if (close == kNone || left.substr(i + 1, close - i).find(left[i]) != kNone) return false;
    any = true;
    i = close + 1;
  }
  return any;
}

std::string WithoutDrawings(std::string_view text) {
  constexpr std::string_view kOpen = "[asy]", kClose = "[/asy]";
  std::string plain;
  for (std::size_t open = text.find(kOpen); open != kNone; open = text.find(kOpen)) {
    const std::size_t close = text.find(kClose, open);
    if (close == kNone) break;
    plain.append(text.substr(0, open)).append("\n\n");
    text.remove_prefix(close + kClose.size());
  }
  return plain.append(text);
}

std::string_view WithoutRemark(std::string_view text) {
  text = Trim(text);
  for (const auto& begin_of : {BracketAtEnd, NoteAtEnd}) {
    const std::size_t begin = begin_of(text);
    if (begin != kNone && !Retracts(text.substr(begin))) text = Trim(text.substr(0, begin));
  }
  return text;
}

}  // namespace buttress
