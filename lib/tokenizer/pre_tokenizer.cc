#include "lib/tokenizer/pre_tokenizer.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "lib/tokenizer/json/json_fields.h"
#include "lib/tokenizer/vocabulary.h"

namespace buttress {

using nlohmann::json;

namespace {

using Delimiters = SplitPattern::Delimiters;

constexpr std::size_t kPreTokenizersMax = 32;

// The pattern of ByteLevel with use_regex (GPT-2).
constexpr std::string_view kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kNumeric = R"(\p{N})";
// The punctuation of Unicode 8 and of ASCII, because the table of Punctuation in the tokenizers
// package is of that version (the crate unicode_categories). All punctuation between the bounds of
// an excluded range is newer; U+166D and U+111C9 have another category since.
constexpr std::string_view kPunctuation =
    R"((?![\x{61d}\x{9fd}-\x{a76}\x{c77}-\x{c84}\x{1b4e}\x{1b4f}\x{1b7d}-\x{1b7f})"
    R"(\x{2e43}-\x{2e5d}\x{10d6e}-\x{10f89}\x{113d4}-\x{1145d}\x{11660}-\x{116b9})"
    R"(\x{1183b}-\x{11fff}\x{12ff1}\x{12ff2}\x{16d6d}-\x{16fe2}\x{1e5ff}-\x{1e95f}])\p{P})"
    R"(|[!-/:-@\[-`{-~\x{166d}\x{111c9}])";

std::string WriteSpaces(const Metaspace& metaspace, std::string_view word, bool begins) {
  std::string out;
  for (const char c : word) {
    if (c == ' ') {
      out += metaspace.replacement;
    } else {
      out += c;
    }
  }
  const bool prepend = metaspace.prepend == Metaspace::Prepend::kAlways ||
                       (metaspace.prepend == Metaspace::Prepend::kFirst && begins);
  if (prepend && !out.starts_with(metaspace.replacement)) out.insert(0, metaspace.replacement);
  return out;
}

}  // namespace

struct PreTokenizer::Words {
  PreTokenizedText out;
  bool first;  // the first word begins the whole text

  std::string_view Of(const TextRange& word) const {
    return std::string_view(out.text).substr(word.begin, word.end - word.begin);
  }

  Status SplitAll(const SplitPattern& pattern) {
    std::vector<TextRange> words;
    for (const TextRange& word : out.words) {
      BUTTRESS_ASSIGN_OR_RETURN(const std::vector<TextRange> parts, pattern.Split(Of(word)));
      for (const TextRange& part : parts)
        words.push_back({word.begin + part.begin, word.begin + part.end});
    }
    if (words.empty() || words.front().begin != out.words.front().begin) first = false;
    out.words = std::move(words);
    return OkStatus();
  }

  // Replaces each word by what `rewrite` makes of it; `begins` says whether it begins the text.
  void Rewrite(const std::function<std::string(std::string_view word, bool begins)>& rewrite) {
    std::string text;
    text.reserve(out.text.size() * 2);
    bool begins = first;
    for (TextRange& word : out.words) {
      const std::size_t begin = text.size();
      text += rewrite(Of(word), begins);
      begins = false;
      word = {begin, text.size()};
    }
    out.text = std::move(text);
  }
};

Result<Regex> PatternMember(const json& spec, const std::string& path) {
  const json& pattern = MemberOrNull(spec, "pattern");
  const std::string member = path + ".pattern";
  if (pattern.is_object() && pattern.size() == 1) {
    const json& regex = MemberOrNull(pattern, "Regex");
    if (regex.is_string()) {
      Result<Regex> compiled = Regex::Compile(regex.get_ref<const std::string&>());
      return compiled.ok() ? std::move(compiled) : compiled.status().Annotate(member);
    }
    const json& literal = MemberOrNull(pattern, "String");
    if (literal.is_string() && !literal.get_ref<const std::string&>().empty())
      return Regex::Literal(literal.get_ref<const std::string&>());
  }
  return InvalidArgument(member + " is neither {\"Regex\": text} nor {\"String\": text}");
}

Result<SplitPattern::Delimiters> BehaviorMember(const json& spec, const std::string& path,
                                                const std::string& absent) {
  using enum SplitPattern::Delimiters;
  static constexpr std::pair<std::string_view, SplitPattern::Delimiters> kDelimiters[] = {
      {"Removed", kRemoved},
      {"Isolated", kIsolated},
      {"MergedWithPrevious", kMergedWithPrevious},
      {"MergedWithNext", kMergedWithNext},
      {"Contiguous", kContiguous},
  };
  BUTTRESS_ASSIGN_OR_RETURN(const std::string behavior,
                            StringMember(spec, path, "behavior", absent));
  const auto it = std::find_if(std::begin(kDelimiters), std::end(kDelimiters),
                               [&](const auto& entry) { return entry.first == behavior; });
  if (it == std::end(kDelimiters))
    return InvalidArgument(
        fmt::format("{}.behavior = '{}' is not Removed, Isolated, MergedWithPrevious, "
                    "MergedWithNext or Contiguous",
                    path, behavior));
  return it->second;
}

Result<SplitPattern> SplitPattern::FromJson(const json& spec, const std::string& path) {
  BUTTRESS_RETURN_IF_ERROR(
      ExpectMembersAmong(spec, path, {"type", "pattern", "behavior", "invert"}));
  BUTTRESS_ASSIGN_OR_RETURN(Regex pattern, PatternMember(spec, path));
  BUTTRESS_ASSIGN_OR_RETURN(const Delimiters delimiters, BehaviorMember(spec, path, ""));
  BUTTRESS_ASSIGN_OR_RETURN(const bool invert, BoolMember(spec, path, "invert", false));
  return SplitPattern(std::move(pattern), delimiters, invert);
}

std::vector<SplitPattern::Part> SplitPattern::PartsOf(std::size_t size,
                                                      const std::vector<TextRange>& matches) const {
  std::vector<Part> parts;
  std::size_t end = 0;
  for (const TextRange& match : matches) {
    if (match.begin > end) parts.push_back({{end, match.begin}, invert_});
    parts.push_back({match, !invert_});
    end = match.end;
  }
  if (end < size) parts.push_back({{end, size}, invert_});
  return parts;
}

std::vector<TextRange> SplitPattern::WordsOf(std::vector<Part> parts) const {
  const bool from_the_end = delimiters_ == Delimiters::kMergedWithNext;
  if (from_the_end) std::reverse(parts.begin(), parts.end());
  std::vector<TextRange> words;
  bool previous_match = false;
  for (const Part& part : parts) {
    bool merge = false;
    switch (delimiters_) {
      case Delimiters::kRemoved:
        if (part.match) continue;
        break;
      case Delimiters::kIsolated:
        break;
      case Delimiters::kContiguous:
        merge = part.match == previous_match;
        break;
      case Delimiters::kMergedWithPrevious:
      case Delimiters::kMergedWithNext:
        merge = part.match && !previous_match;
        break;
    }
    previous_match = part.match;
    if (!merge || words.empty()) {
      words.push_back(part.range);
    } else if (from_the_end) {
      words.back().begin = part.range.begin;
    } else {
      words.back().end = part.range.end;
    }
  }
  if (from_the_end) std::reverse(words.begin(), words.end());
  std::erase_if(words, [](const TextRange& word) { return word.begin == word.end; });
  return words;
}

Result<std::vector<TextRange>> SplitPattern::Split(std::string_view text) const {
  std::vector<TextRange> matches;
  BUTTRESS_RETURN_IF_ERROR(pattern_.FindAll(text, matches));
  return WordsOf(PartsOf(text.size(), matches));
}

Result<Metaspace> ParseMetaspace(const json& spec, const std::string& path) {
  BUTTRESS_RETURN_IF_ERROR(ExpectMembersAmong(
      spec, path,
      {"type", "replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"}));
  Metaspace out;
  BUTTRESS_ASSIGN_OR_RETURN(out.replacement,
                            StringMember(spec, path, "replacement", out.replacement));
  if (out.replacement.empty())
    return InvalidArgument(path + ".replacement is empty; one character is expected");
  BUTTRESS_ASSIGN_OR_RETURN(out.split, BoolMember(spec, path, "split", true));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string scheme,
                            StringMember(spec, path, "prepend_scheme", "always"));
  if (scheme == "first") {
    out.prepend = Metaspace::Prepend::kFirst;
  } else if (scheme == "never") {
    out.prepend = Metaspace::Prepend::kNever;
  } else if (scheme != "always") {
    return InvalidArgument(
        fmt::format("{}.prepend_scheme = '{}' is not always, first or never", path, scheme));
  }
  // Files of older versions have this member instead of prepend_scheme.
  BUTTRESS_ASSIGN_OR_RETURN(const bool add, BoolMember(spec, path, "add_prefix_space", true));
  if (!add) out.prepend = Metaspace::Prepend::kNever;
  return out;
}

PreTokenizer::Step PreTokenizer::SplitAt(SplitPattern pattern) {
  return [pattern = std::make_shared<SplitPattern>(std::move(pattern))](Words& words) {
    return words.SplitAll(*pattern);
  };
}

// Writes the bytes of each word as characters (vocabulary.h), after a split.
Result<PreTokenizer::Step> PreTokenizer::ParseByteLevel(const json& spec, const std::string& path) {
  // trim_offsets changes offsets only, which are not used here.
  BUTTRESS_RETURN_IF_ERROR(
      ExpectMembersAmong(spec, path, {"type", "add_prefix_space", "trim_offsets", "use_regex"}));
  BUTTRESS_ASSIGN_OR_RETURN(const bool prefix, BoolMember(spec, path, "add_prefix_space", true));
  BUTTRESS_ASSIGN_OR_RETURN(const bool use_regex, BoolMember(spec, path, "use_regex", true));
  BUTTRESS_ASSIGN_OR_RETURN(Regex pattern, Regex::Compile(kByteLevelPattern));
  add_prefix_space_ = add_prefix_space_ || prefix;
  const Step split = SplitAt(SplitPattern(std::move(pattern), Delimiters::kIsolated));
  return Step([prefix, use_regex, split](Words& words) {
    if (prefix) {
      words.Rewrite([](std::string_view word, bool) {
        return (word.starts_with(' ') ? "" : " ") + std::string(word);
      });
    }
    if (use_regex) BUTTRESS_RETURN_IF_ERROR(split(words));
    words.Rewrite([](std::string_view word, bool) { return BytesToCharacters(word); });
    return OkStatus();
  });
}

Result<PreTokenizer::Step> PreTokenizer::ParseSpaces(const json& spec, const std::string& path) {
  BUTTRESS_ASSIGN_OR_RETURN(const Metaspace metaspace, ParseMetaspace(spec, path));
  BUTTRESS_ASSIGN_OR_RETURN(Regex pattern, Regex::Literal(metaspace.replacement));
  add_prefix_space_ = add_prefix_space_ || metaspace.prepend != Metaspace::Prepend::kNever;
  const Step split = SplitAt(SplitPattern(std::move(pattern), Delimiters::kMergedWithNext));
  return Step([metaspace, split](Words& words) {
    words.Rewrite(
        [&](std::string_view word, bool begins) { return WriteSpaces(metaspace, word, begins); });
    return metaspace.split ? split(words) : OkStatus();
  });
}

Result<PreTokenizer::Step> PreTokenizer::ParseStep(const json& spec, const std::string& path) {
  BUTTRESS_RETURN_IF_ERROR(ExpectObject(spec, path));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string type, StringMember(spec, path, "type", ""));
  if (type == "ByteLevel") return ParseByteLevel(spec, path);
  if (type == "Metaspace") return ParseSpaces(spec, path);
  if (type == "Split") {
    BUTTRESS_ASSIGN_OR_RETURN(SplitPattern split, SplitPattern::FromJson(spec, path));
    return SplitAt(std::move(split));
  }
  if (type == "Digits") {
    BUTTRESS_RETURN_IF_ERROR(ExpectMembersAmong(spec, path, {"type", "individual_digits"}));
    BUTTRESS_ASSIGN_OR_RETURN(const bool each, BoolMember(spec, path, "individual_digits", false));
    BUTTRESS_ASSIGN_OR_RETURN(Regex pattern, Regex::Compile(kNumeric));
    return SplitAt(
        SplitPattern(std::move(pattern), each ? Delimiters::kIsolated : Delimiters::kContiguous));
  }
  if (type == "Punctuation") {
    BUTTRESS_RETURN_IF_ERROR(ExpectMembersAmong(spec, path, {"type", "behavior"}));
    BUTTRESS_ASSIGN_OR_RETURN(const Delimiters delimiters, BehaviorMember(spec, path, "Isolated"));
    BUTTRESS_ASSIGN_OR_RETURN(Regex pattern, Regex::Compile(kPunctuation));
    return SplitAt(SplitPattern(std::move(pattern), delimiters));
  }
  return InvalidArgument(
      fmt::format("{}.type = '{}' is not supported; Split, ByteLevel, Metaspace, Digits, "
                  "Punctuation and a Sequence of them are",
                  path, type));
}

Result<PreTokenizer> PreTokenizer::FromJson(const json& spec) {
  const std::string path = "pre_tokenizer";
  PreTokenizer out;
  if (spec.is_null()) return out;
  if (MemberOrNull(spec, "type") != "Sequence") {
    BUTTRESS_ASSIGN_OR_RETURN(Step step, out.ParseStep(spec, path));
    out.steps_.push_back(std::move(step));
    return out;
  }
  const json& list = MemberOrNull(spec, "pretokenizers");
  if (!list.is_array() || list.empty() || list.size() > kPreTokenizersMax)
    return InvalidArgument(fmt::format("{}.pretokenizers is not a list of 1 to {} pre-tokenizers",
                                       path, kPreTokenizersMax));
  for (std::size_t i = 0; i < list.size(); ++i) {
    BUTTRESS_ASSIGN_OR_RETURN(Step step,
                              out.ParseStep(list[i], fmt::format("{}.pretokenizers[{}]", path, i)));
    out.steps_.push_back(std::move(step));
  }
  return out;
}

Result<PreTokenizedText> PreTokenizer::Split(std::string text, bool first) const {
  Words words{.out = {.text = std::move(text), .words = {}}, .first = first};
  if (words.out.text.empty()) return std::move(words.out);
  words.out.words.push_back({0, words.out.text.size()});
  for (const Step& step : steps_) BUTTRESS_RETURN_IF_ERROR(step(words));
  return std::move(words.out);
}

}  // namespace buttress
