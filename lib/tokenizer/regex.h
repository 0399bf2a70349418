// Runs the regular expressions of tokenizer.json, which are written for Oniguruma, with PCRE2.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"

struct pcre2_real_code_8;

namespace buttress {

// A part of a text, in bytes: [begin, end).
struct TextRange {
  std::size_t begin = 0;
  std::size_t end = 0;

  bool operator==(const TextRange&) const = default;
};

// Thread-safe.
class Regex {
 public:
  // Returns kInvalidArgument for a pattern that does not compile, and for constructs whose meaning
  // differs between PCRE2 and Oniguruma.
  static Result<Regex> Compile(std::string_view pattern);

  // Returns a regex that matches `text` literally.
  static Result<Regex> Literal(std::string_view text);

  // Appends all matches from left to right, without overlap. An empty match right after another
  // match is skipped, as in Oniguruma's iterator. Returns kResourceExhausted if matching takes more
  // than a fixed number of steps per byte. REQUIRES: valid UTF-8.
  Status FindAll(std::string_view text, std::vector<TextRange>& matches) const;

  // Returns `text` with `content` for each match.
  Result<std::string> ReplaceAll(std::string_view text, std::string_view content) const;

 private:
  struct CodeDeleter {
    void operator()(pcre2_real_code_8* code) const;
  };

  explicit Regex(pcre2_real_code_8* code) : code_(code) {}

  static Result<Regex> CompilePcre2(const std::string& pattern);

  std::unique_ptr<pcre2_real_code_8, CodeDeleter> code_;
};

}  // namespace buttress
