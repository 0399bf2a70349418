#include "lib/verify/math/values.h"

#include <absl/strings/ascii.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "lib/verify/extract.h"
#include "lib/verify/math/statement.h"
#include "lib/verify/math/words.h"

namespace buttress {
namespace {

constexpr std::size_t kTailBytes = 4096;
constexpr std::size_t kMaxMathBytes = 120;  // of one member of a list between dollars

// A word of letters in lower case and its place.
struct PlacedWord {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::string text;
};

bool IsLetterAt(std::string_view text, std::size_t at) {
  return at < text.size() && absl::ascii_isalpha(text[at]);
}

// Returns the word that begins at `at` or behind one blank or hyphen; empty if there is none.
PlacedWord WordAt(std::string_view text, std::size_t at) {
  if (at < text.size() && (text[at] == ' ' || text[at] == '-')) ++at;
  std::size_t end = at;
  while (IsLetterAt(text, end)) ++end;
  return {at, end, LowerAscii(text.substr(at, end - at))};
}

// Returns the word that ends at `at` or before one blank.
PlacedWord WordBefore(std::string_view text, std::size_t at) {
  if (at > 0 && text[at - 1] == ' ') --at;
  std::size_t begin = at;
  while (begin > 0 && absl::ascii_isalpha(text[begin - 1])) --begin;
  return {begin, at, LowerAscii(text.substr(begin, at - begin))};
}

// Returns the unit behind `at` if it can be converted to others and is written in full.
std::optional<UnitSize> UnitAt(std::string_view text, std::size_t at, std::size_t& end) {
  constexpr std::size_t kShortest = 4;  // not the "in" of "5 in total"
  if (at + kShortest >= text.size() || !(IsLetterAt(text, at) || IsLetterAt(text, at + 1)))
    return std::nullopt;
  const PlacedWord word = WordAt(text, at);
  const auto unit = word.text.size() < kShortest ? std::nullopt : CanonicalUnit(word.text);
  if (!unit || text.substr(word.end).starts_with('/')) return std::nullopt;
  end = word.end;
  return SizeOf(*unit);
}

class ValueReader {
 public:
  ValueReader(std::string_view text, CommaReading commas, std::size_t most)
      : text_(text), most_(most) {
    for (std::size_t at = 0; const auto number = NumberAt(text, at, at, commas);) {
      values_.push_back({*number, {}});
      if (values_.size() == 2 * most)
        values_.erase(values_.begin(), values_.begin() + static_cast<std::ptrdiff_t>(most));
    }
  }

  std::vector<ProseValue> Take() {
    AddWords();
    std::ranges::stable_sort(values_, {},
                             [](const ProseValue& value) { return value.span.data(); });
    AddQuantities();
    AddLists();
    std::ranges::reverse(values_);
    if (values_.size() > most_) values_.resize(most_);
    return std::move(values_);
  }

 private:
  std::size_t Tail() const { return text_.size() - std::min(text_.size(), kTailBytes); }

  std::size_t Begin(const ProseValue& value) const {
    return static_cast<std::size_t>(value.span.data() - text_.data());
  }

  std::size_t End(const ProseValue& value) const { return Begin(value) + value.span.size(); }

  void Extend(ProseValue& value, std::size_t begin, std::size_t end) {
    value.span = text_.substr(begin, end - begin);
    value.text.clear();
  }

  // Adds the numbers in letters.
  void AddWords() {
    for (std::size_t at = Tail(); at < text_.size();) {
      if (!IsLetterAt(text_, at) ||
          (at > 0 && (IsLetterAt(text_, at - 1) || text_[at - 1] == '\\'))) {
        ++at;
        continue;
      }
      std::size_t end = at;
      while (IsLetterAt(text_, end)) ++end;
      at = std::max(end, AddWord(at, end));
    }
  }

  // Adds the number that begins with the word at `begin`; returns its end, or 0 if there is none.
  std::size_t AddWord(std::size_t begin, std::size_t end) {
    constexpr std::size_t kShortest = 3, kLongest = 9;  // one, seventeen
    constexpr std::string_view kFirst = "zotfsenZOTFSEN";
    if (end - begin < kShortest || end - begin > kLongest ||
        kFirst.find(text_[begin]) == std::string_view::npos)
      return 0;
    const std::string word = LowerAscii(text_.substr(begin, end - begin));
    const auto number = NumberWord(word);
    if (!number) return 0;
    PlacedWord next = WordAt(text_, end);
    constexpr int kTwenty = 20;
    if (*number >= kTwenty && NumberWord(next.text).value_or(kTwenty) < 10) {
      end = next.end;  // twenty-five
    } else if (MultiplierWord(next.text)) {
      end = next.end;  // two thirds
    } else if (text_.substr(end).starts_with(" and a half")) {
      end += std::string_view(" and a half").size();
      std::size_t unit = end;
      UnitAt(text_, end, unit);
      values_.push_back(
          {text_.substr(begin, end - begin),
           std::to_string(*number) + " 1/2 " + std::string(text_.substr(end, unit - end))});
      return end;
    } else if (word == "one") {
      return 0;
    }
    values_.push_back({text_.substr(begin, end - begin), {}});
    return end;
  }

  // Extends numbers by what belongs to them: a sign in letters, a unit, a month, the other number
  // of a ratio.
  void AddQuantities() {
    std::vector<ProseValue> kept;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      ProseValue value = values_[i];
      if (Begin(value) < Tail()) {
        kept.push_back(std::move(value));
        continue;
      }
      const PlacedWord before = WordBefore(text_, Begin(value));
      if (before.text == "negative" || (before.text == "minus" && EndsInVerb(before.begin)))
        Extend(value, before.begin, End(value));
      const std::size_t first = i;
      if (i + 1 < values_.size() && JoinUnits(value, values_[i + 1])) ++i;
      while (i + 1 < values_.size() && JoinRatio(value, values_[i + 1])) ++i;
      const bool joined = i > first;
      if (!joined && !JoinMonth(value)) AddUnit(value);
      kept.push_back(std::move(value));
    }
    values_ = std::move(kept);
  }

  // "the product is minus 5"
  bool EndsInVerb(std::size_t end) const {
    const std::string verb = WordBefore(text_, end).text;
    return verb == "is" || verb == "equals" || verb == "get" || verb == "gives";
  }

  // "350 cents": the span is the number alone, behind which its unit stands.
  void AddUnit(ProseValue& value) const {
    std::size_t end = 0;
    if (absl::ascii_isdigit(value.span.back()) && UnitAt(text_, End(value), end))
      value.text = std::string(text_.substr(Begin(value), end - Begin(value)));
  }

  // "2 hours and 30 minutes"
  bool JoinUnits(ProseValue& value, const ProseValue& next) {
    std::size_t end = 0, last = 0;
    const auto unit = UnitAt(text_, End(value), end);
    if (!unit || Begin(next) < end) return false;
    const std::string_view between = text_.substr(end, Begin(next) - end);
    const auto smaller = UnitAt(text_, End(next), last);
    if (!smaller || smaller->dimension != unit->dimension || smaller->size >= unit->size ||
        (between != " " && between != " and " && between != ", "))
      return false;
    Extend(value, Begin(value), last);
    return true;
  }

  // "the ratio of boys to girls is 4 to 3", "a 4 to 3 ratio"; not "the ratio fell from 4 to 3"
  bool JoinRatio(ProseValue& value, const ProseValue& next) {
    if (Begin(next) < End(value) || text_.substr(End(value), Begin(next) - End(value)) != " to ")
      return false;
    constexpr std::size_t kReach = 100;
    const std::size_t begin = Begin(value) - std::min(Begin(value), kReach);
    const std::string before = LowerAscii(text_.substr(begin, Begin(value) - begin));
    if (before.ends_with("from ") ||
        (before.find("ratio") == std::string::npos && !before.ends_with("odds are ") &&
         WordAt(text_, End(next)).text != "ratio"))
      return false;
    std::string text =
        (value.text.empty() ? std::string(value.span) : value.text) + ":" + std::string(next.span);
    Extend(value, Begin(value), End(next));
    value.text = std::move(text);
    return true;
  }

  // "June 5", "June 5th", "5 June"
  bool JoinMonth(ProseValue& value) {
    std::size_t end = End(value);
    const PlacedWord before = WordBefore(text_, Begin(value));
    PlacedWord next = WordAt(text_, end);
    if (IsMonth(before.text) && absl::ascii_isupper(text_[before.begin])) {
      if (next.text.size() == 2 && next.begin == end) end = next.end;
      Extend(value, before.begin, end);
      return true;
    }
    if (!IsMonth(next.text) || !absl::ascii_isupper(text_[next.begin])) return false;
    Extend(value, Begin(value), next.end);
    return true;
  }

  // Returns the members that a list may have: numbers, and expressions between dollars.
  std::vector<std::string_view> Members() const {
    std::vector<std::string_view> members;
    std::size_t at = Tail();
    for (const ProseValue& value : values_) {
      if (Begin(value) < at) continue;
      for (std::size_t open = text_.find('$', at); open < Begin(value);
           open = text_.find('$', at)) {
        const std::size_t close = text_.find('$', open + 1);
        at = open + 1;
        if (close == std::string_view::npos || close - open > kMaxMathBytes || close == open + 1 ||
            text_[close - 1] == ' ' || text_[open + 1] == ' ')
          continue;
        members.push_back(text_.substr(open, close + 1 - open));
        at = close + 1;
      }
      if (Begin(value) >= at) members.push_back(value.span);
    }
    return members;
  }

  // Returns the variable of x = 5, also where "x = " stands before the span; '\0' if there is none.
  char Variable(std::string_view span) const {
    const std::string_view inside = Trim(span.starts_with('$') ? span.substr(1) : span);
    const auto begin = static_cast<std::size_t>(span.data() - text_.data());
    if (inside.size() > 2 && absl::ascii_isalpha(inside[0]) &&
        Trim(inside.substr(1)).starts_with('='))
      return inside[0];
    const std::string_view before = Trim(text_.substr(0, begin));
    if (before.size() < 2 || !before.ends_with('=')) return '\0';
    const std::string_view name = Trim(before.substr(0, before.size() - 1));
    const bool letter = !name.empty() && absl::ascii_isalpha(name.back()) &&
                        (name.size() == 1 || !absl::ascii_isalnum(name[name.size() - 2]));
    return letter ? name.back() : '\0';
  }

  // Whether the span is a part of an expression, as the 2 of "2 + 3" is, or an equation.
  bool IsPart(std::string_view span) const {
    if (Variable(span) == '\0' && span.find('=') != std::string_view::npos) return true;
    const auto end = static_cast<std::size_t>(span.data() + span.size() - text_.data());
    const std::size_t next = text_.find_first_not_of(' ', end);
    return !span.ends_with('$') && next != std::string_view::npos &&
           std::string_view("+*/=^-\\_<>").find(text_[next]) != std::string_view::npos;
  }

  // Whether the text between two members joins them: "," "and" "or", and "x =" again.
  bool JoinsMembers(std::string_view one, std::string_view other) const {
    if (IsPart(one) || IsPart(other)) return false;
    const char* const begin = one.data() + one.size();
    if (other.data() <= begin) return false;
    const std::string_view between(begin, static_cast<std::size_t>(other.data() - begin));
    constexpr std::size_t kLongest = 12;
    if (between.size() > kLongest || between.find('\n') != std::string_view::npos) return false;
    std::string_view rest = Trim(between);
    const bool comma = rest.starts_with(',');
    if (comma) rest = Trim(rest.substr(1));
    bool word = false;
    for (const std::string_view joint : {"and", "or"}) {
      if (!rest.starts_with(joint) || IsLetterAt(rest, joint.size())) continue;
      word = true;
      rest = Trim(rest.substr(joint.size()));
    }
    const char variable = Variable(other);
    if (!(comma || word) || variable != Variable(one)) return false;
    return rest.empty() || (rest.ends_with('=') && rest[0] == variable);
  }

  // Inserts each list behind its last member.
  void AddLists() {
    const std::vector<std::string_view> members = Members();
    for (std::size_t i = 0; i < members.size();) {
      std::size_t last = i;
      while (last + 1 < members.size() && JoinsMembers(members[last], members[last + 1])) ++last;
      if (last > i) AddList(members[i], members[last]);
      i = last + 1;
    }
  }

  void AddList(std::string_view first, std::string_view last) {
    auto begin = static_cast<std::size_t>(first.data() - text_.data());
    const auto end = static_cast<std::size_t>(last.data() + last.size() - text_.data());
    if (Variable(first) != '\0' && !first.starts_with('$'))
      begin = text_.rfind(Variable(first), begin);
    ProseValue list{text_.substr(begin, end - begin), {}, true};
    for (const char c : list.span)
      if (c != '$') list.text.push_back(c);
    if (text_.substr(0, begin).ends_with("either "))
      list.span = text_.substr(begin - std::string_view("either ").size(),
                               end - begin + std::string_view("either ").size());
    const auto behind =
        std::ranges::find_if(values_, [&](const ProseValue& value) { return Begin(value) >= end; });
    values_.insert(behind, std::move(list));
  }

  std::string_view text_;
  std::size_t most_;
  std::vector<ProseValue> values_;  // in the order of the text
};

}  // namespace

std::vector<ProseValue> ValuesOf(std::string_view text, CommaReading commas, std::size_t most) {
  return ValueReader(text, commas, most).Take();
}

}  // namespace buttress
