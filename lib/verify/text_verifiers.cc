// Verifiers that compare a whole text or the form of one: exact, arithmetic, normalized, format,
// length and overlong.
#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "lib/base/text/bounded_json.h"
#include "lib/verify/anchors.h"
#include "lib/verify/extract.h"
#include "lib/verify/rational.h"
#include "lib/verify/verifiers.h"

namespace buttress {
namespace {

using nlohmann::json;

// Returns the integer if `text` is one and nothing else.
std::optional<Rational> WholeInteger(std::string_view text) {
  if (text.find('.') != std::string_view::npos) return std::nullopt;
  return ParseDecimal(text);
}

// utf8proc orders combining marks in quadratic time, so longer texts are not folded. No answer in
// words is that long.
constexpr std::size_t kMaxBytes = 4096;

bool IsPunctuation(utf8proc_int32_t code_point) {
  const utf8proc_category_t category = utf8proc_category(code_point);
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_SO;
}

// Returns the words without punctuation and articles, separated by one space. REQUIRES: valid
// UTF-8.
std::string KeepWords(std::string_view folded) {
  std::string words;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty() && word != "a" && word != "an" && word != "the")
      words += (words.empty() ? "" : " ") + word;
    word.clear();
  };
  for (std::size_t at = 0; at < folded.size();) {
    utf8proc_int32_t code_point = 0;
    const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(folded.data() + at);
    const utf8proc_ssize_t length =
        utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(folded.size() - at), &code_point);
    if (length <= 0) break;
    const utf8proc_category_t category = utf8proc_category(code_point);
    const bool space = category >= UTF8PROC_CATEGORY_ZS || code_point <= ' ';
    if (space) {
      end_word();
    } else if (!IsPunctuation(code_point)) {
      word.append(folded.substr(at, static_cast<std::size_t>(length)));
    }
    at += static_cast<std::size_t>(length);
  }
  end_word();
  return words;
}

// Returns nullopt if `text` is too long or not UTF-8.
std::optional<std::string> Normalize(std::string_view text) {
  if (text.size() > kMaxBytes) return std::nullopt;
  utf8proc_uint8_t* folded = nullptr;
  const utf8proc_ssize_t length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &folded,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE |
                                                  UTF8PROC_COMPAT | UTF8PROC_CASEFOLD));
  if (length < 0) return std::nullopt;
  std::string words =
      KeepWords({reinterpret_cast<const char*>(folded), static_cast<std::size_t>(length)});
  std::free(folded);
  return words;
}

// Returns the correct texts; empty if the reference is malformed.
std::vector<std::string> References(std::string_view answer) {
  std::vector<std::string> references;
  const auto add = [&](std::string_view text) {
    if (auto normal = Normalize(text); normal && !normal->empty())
      references.push_back(*std::move(normal));
  };
  const Result<json> list = ParseBoundedJson(answer.starts_with('[') ? answer : "");
  if (!list.ok() || !list->is_array()) {
    add(answer);
    return references;
  }
  for (const json& item : *list) {
    if (!item.is_string()) return {};
    add(item.get_ref<const std::string&>());
  }
  return references;
}

std::int64_t Count(std::string_view text, std::string_view part) {
  std::int64_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + part.size()))
    ++count;
  return count;
}

// Returns the first fault of the tags; empty if there is none.
std::string FormatProblem(const FormatConfig& config, std::string_view prompt,
                          std::string_view rest) {
  const std::string_view response = rest;
  for (std::size_t i = 0; i < config.tags.size(); ++i) {
    const auto [open, close] = TagMarks(config.tags[i]);
    const bool opened = i == 0 && prompt.ends_with(open);
    if (Count(response, open) != (opened ? 0 : 1)) return open + " does not stand once";
    if (Count(response, close) != 1) return close + " does not stand once";
    if (!opened && !rest.starts_with(open)) return open + " is not where it belongs";
    if (!opened) rest.remove_prefix(open.size());
    const std::size_t end = rest.find(close);
    if (end == std::string_view::npos) return close + " stands before " + open;
    rest = Trim(rest.substr(end + close.size()));
  }
  return config.free_end || rest.empty() ? "" : "text behind the last tag";
}

constexpr char kNoTokens[] = "tokens: not known of a text; only completions of a run have them";

std::int64_t LengthInWords(std::string_view text) {
  std::int64_t words = 0;
  bool inside = false;
  for (const char c : text) {
    const bool space = c == ' ' || (c >= '\t' && c <= '\r');
    if (!space && !inside) ++words;
    inside = !space;
  }
  return words;
}

// Counts code points, by their leading bytes.
std::int64_t LengthInCharacters(std::string_view text) {
  std::int64_t characters = 0;
  for (const char c : text) characters += (static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1 : 0;
  return characters;
}

}  // namespace

Verdict JudgeExact(const VerifyRequest& request, const RewardConfig& /*config*/) {
  std::string given(Trim(request.response));
  std::string gold(Trim(request.answer));
  const bool equal = given == gold && !request.truncated;
  return equal ? Correct(std::move(given), std::move(gold))
               : Wrong(std::move(given), std::move(gold));
}

Verdict JudgeArithmetic(const VerifyRequest& request, const RewardConfig& /*config*/) {
  const std::optional<Rational> gold = WholeInteger(Trim(request.answer));
  if (!gold) return Unscorable("answer: no integer");
  const std::optional<std::string_view> tagged = InAnswerTags(request.response);
  if (!tagged && request.truncated) return Wrong("", ToString(*gold));
  const std::optional<Rational> given = WholeInteger(tagged ? *tagged : Trim(request.response));
  if (!given) return Wrong("", ToString(*gold));
  return given == gold ? Correct(ToString(*given), ToString(*gold))
                       : Wrong(ToString(*given), ToString(*gold));
}

// Compares words without regard to case, punctuation, articles and white space, like the evaluation
// of SQuAD (arXiv 1606.05250). The reference may be a JSON list of texts, each of which is correct.
// Letters are folded by Unicode (NFKC and case folding), so that "ﬁne" equals "fine" and "STRASSE"
// equals "straße".
Verdict JudgeNormalized(const VerifyRequest& request, const RewardConfig& /*config*/) {
  const std::vector<std::string> references = References(Trim(request.answer));
  if (references.empty())
    return Unscorable("answer: no words; expected a text or a JSON list of texts");
  const auto found = FindFinalAnswer(request);
  const auto given = found ? Normalize(found->text) : std::nullopt;
  const bool right =
      given && std::find(references.begin(), references.end(), *given) != references.end();
  Verdict verdict = right ? Correct(*given, *given) : Wrong(given.value_or(""), references.front());
  if (found) verdict.anchor = found->anchor;
  return verdict;
}

// Expects the tags of run.reward.format.tags in their order. With [think, answer] a response must
// be "<think>...</think> <answer>...</answer>" and nothing else. If the prompt ends with the first
// opening tag, as in many chat templates, the response begins inside that tag. Tags [think] with
// free_end are the think format of TRL.
Verdict JudgeFormat(const VerifyRequest& request, const RewardConfig& config) {
  const std::string problem =
      FormatProblem(config.format, Trim(request.prompt), Trim(request.response));
  return problem.empty() && !request.truncated ? Correct("", "")
                                               : Wrong(problem.empty() ? "cut" : problem, "");
}

// Rewards 1 if the length of the response is between two bounds, else 0.
Verdict JudgeLength(const VerifyRequest& request, const RewardConfig& config) {
  const LengthUnit unit = config.length.unit;
  const std::int64_t min = config.length.min;
  const std::int64_t max = config.length.max;
  if (unit == LengthUnit::kTokens && request.tokens < 0) return Unscorable(kNoTokens);
  const std::int64_t length = unit == LengthUnit::kTokens  ? request.tokens
                              : unit == LengthUnit::kWords ? LengthInWords(request.response)
                                                           : LengthInCharacters(request.response);
  const std::string given = std::to_string(length) + " " + std::string(ChoiceName(unit));
  const std::string gold = std::to_string(min) + " to " + std::to_string(max);
  return min <= length && length <= max ? Correct(given, gold) : Wrong(given, gold);
}

// Is the soft overlong punishment of DAPO (arXiv 2503.14476, eq. 13). For a response of y tokens
// with L = overlong_tokens and c = overlong_buffer, the reward is
//
//   0                  if y <= L - c
//   ((L - c) - y) / c  if L - c < y <= L
//   -1                 if y > L
//
// The outcome is correct for a reward of 0, else wrong. It is meant as a part of a sum: math +
// overlong.
Verdict JudgeOverlong(const VerifyRequest& request, const RewardConfig& config) {
  const std::int64_t limit = config.length.overlong_tokens;
  const std::int64_t free = limit - config.length.overlong_buffer;
  if (request.tokens < 0) return Unscorable(kNoTokens);
  const std::string given = std::to_string(request.tokens) + " tokens";
  const std::string gold = "at most " + std::to_string(free);
  Verdict verdict = request.tokens <= free ? Correct(given, gold) : Wrong(given, gold);
  verdict.raw_reward = request.tokens <= free   ? 0
                       : request.tokens > limit ? -1
                                                : static_cast<double>(free - request.tokens) /
                                                      static_cast<double>(limit - free);
  return verdict;
}

}  // namespace buttress
