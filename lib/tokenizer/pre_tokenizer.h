// Splits a text into words. BPE merges tokens only within a word.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/tokenizer/regex.h"

namespace buttress {

struct PreTokenizedText {
  std::string text;
  std::vector<TextRange> words;  // in order, none empty
};

// Split and ByteLevel of tokenizer.json's pre_tokenizer, alone or in a Sequence that ends with
// ByteLevel. Thread-safe.
class PreTokenizer {
 public:
  // Reads the pre_tokenizer of a tokenizer.json. Returns kInvalidArgument for types other than
  // those above.
  static Result<PreTokenizer> FromJson(const nlohmann::json& spec);

  // REQUIRES: `text` is valid UTF-8.
  Result<PreTokenizedText> Split(std::string text) const;

  bool add_prefix_space() const;

 private:
  // How the parts that a pattern matches are treated: Hugging Face's SplitDelimiterBehavior.
  enum class Delimiters { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

  struct Step {
    bool add_prefix_space = false;
    std::optional<Regex> pattern;
    Delimiters delimiters = Delimiters::kIsolated;
    bool invert = false;  // the pattern matches the words instead of the delimiters
  };

  // A part of a text, and whether the pattern matched it.
  struct Part {
    TextRange range;
    bool match = false;
  };

  PreTokenizer() = default;

  static Result<Step> ParseStep(const nlohmann::json& spec, const std::string& path);
  static Result<Step> ParseSplit(const nlohmann::json& spec, const std::string& path);
  static void AddPrefixSpaces(PreTokenizedText& text);
  static std::vector<Part> PartsOf(std::size_t size, const std::vector<TextRange>& matches,
                                   bool invert);
  static std::vector<TextRange> WordsOf(std::vector<Part> parts, Delimiters delimiters);
  static Status Apply(const Step& step, PreTokenizedText& text);

  std::vector<Step> steps_;
};

}  // namespace buttress
