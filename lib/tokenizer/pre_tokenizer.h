// Splits a text into words. BPE merges tokens only within a word.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/tokenizer/regex.h"

namespace buttress {

// Splits text at the matches of a pattern: the Split of tokenizer.json, and what reduces to it.
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

// The form in which SentencePiece writes spaces, which pre_tokenizer and decoder of a
// tokenizer.json share: a space becomes a visible character, and one more may be put before the
// text.
struct Metaspace {
  // Where the character is put before a part of the text that does not begin with it.
  enum class Prepend : std::uint8_t {
    kAlways,
    kFirst,  // only at the beginning of the whole text, not after an added token
    kNever,
  };

  std::string replacement = "\u2581";
  Prepend prepend = Prepend::kAlways;
  bool split = true;  // words begin at the character
};

// Reads an object of type Metaspace; kInvalidArgument names the member that is malformed.
Result<Metaspace> ParseMetaspace(const nlohmann::json& spec, const std::string& path);

struct PreTokenizedText {
  std::string text;              // in the alphabet of the vocabulary
  std::vector<TextRange> words;  // in order, none empty
};

// Split, ByteLevel, Metaspace, Digits and Punctuation of tokenizer.json's pre_tokenizer, alone or
// in a Sequence. Thread-safe.
class PreTokenizer {
 public:
  // Reads the pre_tokenizer of a tokenizer.json. Returns kInvalidArgument for types other than
  // those above.
  static Result<PreTokenizer> FromJson(const nlohmann::json& spec);

  // Splits a part of a text, which begins it if `first`. REQUIRES: `text` is valid UTF-8.
  Result<PreTokenizedText> Split(std::string text, bool first) const;

  // Whether a space is put before the words.
  bool add_prefix_space() const { return add_prefix_space_; }

 private:
  struct Words;  // the words of a text while the steps work on it

  // Splits words further, or rewrites them.
  using Step = std::function<Status(Words& words)>;

  PreTokenizer() = default;

  Result<Step> ParseStep(const nlohmann::json& spec, const std::string& path);
  Result<Step> ParseByteLevel(const nlohmann::json& spec, const std::string& path);
  Result<Step> ParseSpaces(const nlohmann::json& spec, const std::string& path);
  static Step SplitAt(SplitPattern pattern);

  std::vector<Step> steps_;
  bool add_prefix_space_ = false;
};

}  // namespace buttress
