// Splits text at the matches of a pattern: the Split of tokenizer.json, and what reduces to it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/tokenizer/regex.h"

namespace buttress {

// Thread-safe.
class SplitPattern {
 public:
  // How the parts that the pattern matches are treated: Hugging Face's SplitDelimiterBehavior.
  enum class Delimiters { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

  // With `invert`, the pattern matches the words instead of the delimiters.
  SplitPattern(Regex pattern, Delimiters delimiters, bool invert = false)
      : pattern_(std::move(pattern)), delimiters_(delimiters), invert_(invert) {}

  // Reads an object of type Split.
  static Result<SplitPattern> FromJson(const nlohmann::json& spec, const std::string& path);

  // Returns the words of `text`, in order, none empty. REQUIRES: valid UTF-8.
  Result<std::vector<TextRange>> Split(std::string_view text) const;

 private:
  // A part of a text, and whether the pattern matched it.
  struct Part {
    TextRange range;
    bool match = false;
  };

  std::vector<Part> PartsOf(std::size_t size, const std::vector<TextRange>& matches) const;
  std::vector<TextRange> WordsOf(std::vector<Part> parts) const;

  Regex pattern_;
  Delimiters delimiters_;
  bool invert_;
};

// Reads the member "behavior", or `absent` if it is missing.
Result<SplitPattern::Delimiters> BehaviorMember(const nlohmann::json& spec, const std::string& path,
                                                const std::string& absent);

// Reads the member "pattern", which is {"Regex": text} or {"String": text}.
Result<Regex> PatternMember(const nlohmann::json& spec, const std::string& path);

}  // namespace buttress
