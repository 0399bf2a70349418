#include "lib/tokenizer/split_pattern.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "lib/tokenizer/json/json_fields.h"

namespace buttress {

using nlohmann::json;

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
    if (literal.is_string() && !literal.get_ref<const std::string&>().empty()) {
      return Regex::Literal(literal.get_ref<const std::string&>());
    }
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
  if (it == std::end(kDelimiters)) {
    return InvalidArgument(
        fmt::format("{}.behavior = '{}' is not Removed, Isolated, MergedWithPrevious, "
                    "MergedWithNext or Contiguous",
                    path, behavior));
  }
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

}  // namespace buttress
