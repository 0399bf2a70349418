#include "lib/tokenizer/pre_tokenizer.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "lib/tokenizer/json_fields.h"

namespace buttress {

using nlohmann::json;

namespace {

constexpr std::size_t kStepsMax = 32;

// The pattern of ByteLevel with use_regex (GPT-2).
constexpr std::string_view kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

Result<Regex> ParsePattern(const json& pattern, const std::string& path) {
  if (pattern.is_object() && pattern.size() == 1) {
    const json& regex = MemberOrNull(pattern, "Regex");
    if (regex.is_string()) return Regex::Compile(regex.get_ref<const std::string&>());
    const json& literal = MemberOrNull(pattern, "String");
    if (literal.is_string() && !literal.get_ref<const std::string&>().empty()) {
      return Regex::Literal(literal.get_ref<const std::string&>());
    }
  }
  return InvalidArgument(path + " is neither {\"Regex\": text} nor {\"String\": text}");
}

}  // namespace

Result<PreTokenizer::Step> PreTokenizer::ParseSplit(const json& spec, const std::string& path) {
  static constexpr std::pair<std::string_view, Delimiters> kDelimiters[] = {
      {"Removed", Delimiters::kRemoved},
      {"Isolated", Delimiters::kIsolated},
      {"MergedWithPrevious", Delimiters::kMergedWithPrevious},
      {"MergedWithNext", Delimiters::kMergedWithNext},
      {"Contiguous", Delimiters::kContiguous},
  };
  BUTTRESS_RETURN_IF_ERROR(
      ExpectMembersAmong(spec, path, {"type", "pattern", "behavior", "invert"}));
  Step step;
  Result<Regex> pattern = ParsePattern(MemberOrNull(spec, "pattern"), path + ".pattern");
  if (!pattern.ok()) return pattern.status().Annotate(path);
  step.pattern = *std::move(pattern);
  BUTTRESS_ASSIGN_OR_RETURN(const std::string behavior, StringMember(spec, path, "behavior", ""));
  const auto it = std::find_if(std::begin(kDelimiters), std::end(kDelimiters),
                               [&](const auto& entry) { return entry.first == behavior; });
  if (it == std::end(kDelimiters)) {
    return InvalidArgument(
        fmt::format("{}.behavior = '{}' is not Removed, Isolated, MergedWithPrevious, "
                    "MergedWithNext or Contiguous",
                    path, behavior));
  }
  step.delimiters = it->second;
  BUTTRESS_ASSIGN_OR_RETURN(step.invert, BoolMember(spec, path, "invert", false));
  return step;
}

Result<PreTokenizer::Step> PreTokenizer::ParseStep(const json& spec, const std::string& path) {
  BUTTRESS_RETURN_IF_ERROR(ExpectObject(spec, path));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string type, StringMember(spec, path, "type", ""));
  if (type == "Split") return ParseSplit(spec, path);
  if (type != "ByteLevel") {
    return InvalidArgument(fmt::format(
        "{}.type = '{}' is not supported; Split, ByteLevel and Sequence are", path, type));
  }
  // trim_offsets changes offsets only, which are not used here.
  BUTTRESS_RETURN_IF_ERROR(
      ExpectMembersAmong(spec, path, {"type", "add_prefix_space", "trim_offsets", "use_regex"}));
  Step step;
  BUTTRESS_ASSIGN_OR_RETURN(step.add_prefix_space,
                            BoolMember(spec, path, "add_prefix_space", true));
  BUTTRESS_ASSIGN_OR_RETURN(const bool use_regex, BoolMember(spec, path, "use_regex", true));
  if (use_regex) {
    BUTTRESS_ASSIGN_OR_RETURN(step.pattern, Regex::Compile(kByteLevelPattern));
  }
  return step;
}

Result<PreTokenizer> PreTokenizer::FromJson(const json& spec) {
  const bool sequence = spec.is_object() && MemberOrNull(spec, "type") == "Sequence";
  const json& list = sequence ? MemberOrNull(spec, "pretokenizers") : spec;
  const std::string path = "pre_tokenizer";
  if (sequence && (!list.is_array() || list.empty() || list.size() > kStepsMax)) {
    return InvalidArgument(
        fmt::format("{}.pretokenizers is not a list of 1 to {} pre-tokenizers", path, kStepsMax));
  }
  PreTokenizer out;
  const std::size_t count = sequence ? list.size() : 1;
  for (std::size_t i = 0; i < count; ++i) {
    const json& step = sequence ? list[i] : list;
    const std::string step_path =
        sequence ? path + ".pretokenizers[" + std::to_string(i) + "]" : path;
    BUTTRESS_ASSIGN_OR_RETURN(Step parsed, ParseStep(step, step_path));
    out.steps_.push_back(std::move(parsed));
    const bool byte_level = MemberOrNull(step, "type") == "ByteLevel";
    if (byte_level != (i + 1 == count)) {
      return InvalidArgument(
          step_path +
          ": the last pre-tokenizer, and no other, must be ByteLevel; byte-level BPE is supported");
    }
  }
  return out;
}

bool PreTokenizer::add_prefix_space() const {
  return std::any_of(steps_.begin(), steps_.end(),
                     [](const Step& step) { return step.add_prefix_space; });
}

void PreTokenizer::AddPrefixSpaces(PreTokenizedText& text) {
  std::string out;
  out.reserve(text.text.size() + text.words.size());
  for (TextRange& word : text.words) {
    const std::size_t begin = out.size();
    if (text.text[word.begin] != ' ') out += ' ';
    out.append(text.text, word.begin, word.end - word.begin);
    word = {begin, out.size()};
  }
  text.text = std::move(out);
}

std::vector<PreTokenizer::Part> PreTokenizer::PartsOf(std::size_t size,
                                                      const std::vector<TextRange>& matches,
                                                      bool invert) {
  std::vector<Part> parts;
  std::size_t end = 0;
  for (const TextRange& match : matches) {
    if (match.begin > end) parts.push_back({{end, match.begin}, invert});
    parts.push_back({match, !invert});
    end = match.end;
  }
  if (end < size) parts.push_back({{end, size}, invert});
  return parts;
}

std::vector<TextRange> PreTokenizer::WordsOf(std::vector<Part> parts, Delimiters delimiters) {
  const bool from_the_end = delimiters == Delimiters::kMergedWithNext;
  if (from_the_end) std::reverse(parts.begin(), parts.end());
  std::vector<TextRange> words;
  bool previous_match = false;
  for (const Part& part : parts) {
    bool merge = false;
    switch (delimiters) {
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

Status PreTokenizer::Apply(const Step& step, PreTokenizedText& text) {
  if (step.add_prefix_space) AddPrefixSpaces(text);
  if (!step.pattern.has_value()) return OkStatus();
  std::vector<TextRange> words;
  std::vector<TextRange> matches;
  for (const TextRange& word : text.words) {
    const std::string_view part =
        std::string_view(text.text).substr(word.begin, word.end - word.begin);
    BUTTRESS_RETURN_IF_ERROR(step.pattern->FindAll(part, matches));
    for (const TextRange& found :
         WordsOf(PartsOf(part.size(), matches, step.invert), step.delimiters)) {
      words.push_back({word.begin + found.begin, word.begin + found.end});
    }
  }
  text.words = std::move(words);
  return OkStatus();
}

Result<PreTokenizedText> PreTokenizer::Split(std::string text) const {
  PreTokenizedText out{.text = std::move(text), .words = {}};
  if (out.text.empty()) return out;
  out.words.push_back({0, out.text.size()});
  for (const Step& step : steps_) BUTTRESS_RETURN_IF_ERROR(Apply(step, out));
  return out;
}

}  // namespace buttress
