#include "lib/tokenizer/pre_tokenizer.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "lib/tokenizer/byte_level.h"
#include "lib/tokenizer/json/json_fields.h"

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

// The words of a text while the steps work on it.
struct Words {
  PreTokenizedText out;
  bool first;  // the first word begins the whole text

  std::string_view Of(const TextRange& word) const {
    return std::string_view(out.text).substr(word.begin, word.end - word.begin);
  }

  Status SplitAll(const SplitPattern& pattern) {
    std::vector<TextRange> words;
    for (const TextRange& word : out.words) {
      BUTTRESS_ASSIGN_OR_RETURN(const std::vector<TextRange> parts, pattern.Split(Of(word)));
      for (const TextRange& part : parts) {
        words.push_back({word.begin + part.begin, word.begin + part.end});
      }
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

Result<PreTokenizer::Step> PreTokenizer::ParseByteLevel(const json& spec, const std::string& path) {
  // trim_offsets changes offsets only, which are not used here.
  BUTTRESS_RETURN_IF_ERROR(
      ExpectMembersAmong(spec, path, {"type", "add_prefix_space", "trim_offsets", "use_regex"}));
  ByteLevel step;
  BUTTRESS_ASSIGN_OR_RETURN(step.add_prefix_space,
                            BoolMember(spec, path, "add_prefix_space", true));
  BUTTRESS_ASSIGN_OR_RETURN(const bool use_regex, BoolMember(spec, path, "use_regex", true));
  if (use_regex) {
    BUTTRESS_ASSIGN_OR_RETURN(Regex pattern, Regex::Compile(kByteLevelPattern));
    step.words.emplace(std::move(pattern), Delimiters::kIsolated);
  }
  return Step(std::move(step));
}

Result<PreTokenizer::Step> PreTokenizer::ParseSpaces(const json& spec, const std::string& path) {
  BUTTRESS_ASSIGN_OR_RETURN(Metaspace metaspace, ParseMetaspace(spec, path));
  BUTTRESS_ASSIGN_OR_RETURN(Regex pattern, Regex::Literal(metaspace.replacement));
  return Step(
      Spaces{std::move(metaspace), SplitPattern(std::move(pattern), Delimiters::kMergedWithNext)});
}

Result<PreTokenizer::Step> PreTokenizer::ParseStep(const json& spec, const std::string& path) {
  BUTTRESS_RETURN_IF_ERROR(ExpectObject(spec, path));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string type, StringMember(spec, path, "type", ""));
  if (type == "ByteLevel") return ParseByteLevel(spec, path);
  if (type == "Metaspace") return ParseSpaces(spec, path);
  if (type == "Split") {
    BUTTRESS_ASSIGN_OR_RETURN(SplitPattern split, SplitPattern::FromJson(spec, path));
    return Step(std::move(split));
  }
  if (type == "Digits") {
    BUTTRESS_RETURN_IF_ERROR(ExpectMembersAmong(spec, path, {"type", "individual_digits"}));
    BUTTRESS_ASSIGN_OR_RETURN(const bool each, BoolMember(spec, path, "individual_digits", false));
    BUTTRESS_ASSIGN_OR_RETURN(Regex pattern, Regex::Compile(kNumeric));
    return Step(
        SplitPattern(std::move(pattern), each ? Delimiters::kIsolated : Delimiters::kContiguous));
  }
  if (type == "Punctuation") {
    BUTTRESS_RETURN_IF_ERROR(ExpectMembersAmong(spec, path, {"type", "behavior"}));
    BUTTRESS_ASSIGN_OR_RETURN(const Delimiters delimiters, BehaviorMember(spec, path, "Isolated"));
    BUTTRESS_ASSIGN_OR_RETURN(Regex pattern, Regex::Compile(kPunctuation));
    return Step(SplitPattern(std::move(pattern), delimiters));
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
    BUTTRESS_ASSIGN_OR_RETURN(Step step, ParseStep(spec, path));
    out.steps_.push_back(std::move(step));
    return out;
  }
  const json& list = MemberOrNull(spec, "pretokenizers");
  if (!list.is_array() || list.empty() || list.size() > kPreTokenizersMax) {
    return InvalidArgument(fmt::format("{}.pretokenizers is not a list of 1 to {} pre-tokenizers",
                                       path, kPreTokenizersMax));
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    BUTTRESS_ASSIGN_OR_RETURN(Step step,
                              ParseStep(list[i], fmt::format("{}.pretokenizers[{}]", path, i)));
    out.steps_.push_back(std::move(step));
  }
  return out;
}

bool PreTokenizer::add_prefix_space() const {
  return std::any_of(steps_.begin(), steps_.end(), [](const Step& step) {
    const auto* byte_level = std::get_if<ByteLevel>(&step);
    const auto* spaces = std::get_if<Spaces>(&step);
    return (byte_level != nullptr && byte_level->add_prefix_space) ||
           (spaces != nullptr && spaces->metaspace.prepend != Metaspace::Prepend::kNever);
  });
}

Result<PreTokenizedText> PreTokenizer::Split(std::string text, bool first) const {
  Words words{.out = {.text = std::move(text), .words = {}}, .first = first};
  if (words.out.text.empty()) return std::move(words.out);
  words.out.words.push_back({0, words.out.text.size()});
  for (const Step& step : steps_) {
    if (const auto* split = std::get_if<SplitPattern>(&step)) {
      BUTTRESS_RETURN_IF_ERROR(words.SplitAll(*split));
    } else if (const auto* spaces = std::get_if<Spaces>(&step)) {
      words.Rewrite([&](std::string_view word, bool begins) {
        return WriteSpaces(spaces->metaspace, word, begins);
      });
      if (spaces->metaspace.split) BUTTRESS_RETURN_IF_ERROR(words.SplitAll(spaces->words));
    } else {
      const auto& byte_level = std::get<ByteLevel>(step);
      if (byte_level.add_prefix_space) {
        words.Rewrite([](std::string_view word, bool) {
          return (word.starts_with(' ') ? "" : " ") + std::string(word);
        });
      }
      if (byte_level.words) BUTTRESS_RETURN_IF_ERROR(words.SplitAll(*byte_level.words));
      words.Rewrite([](std::string_view word, bool) { return BytesToCharacters(word); });
    }
  }
  return std::move(words.out);
}

}  // namespace buttress
