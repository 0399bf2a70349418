// Splits a template into text and the tokens of its tags, which the parsers read.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/report/status.h"

namespace buttress {

struct JinjaToken {
  enum class Kind {
    kText,
    kOutputBegin,
    kOutputEnd,
    kBlockBegin,
    kBlockEnd,
    kName,
    kString,
    kInteger,
    kFloat,
    kOperator,
    kEnd
  };

  Kind kind = Kind::kEnd;
  std::string text;  // escapes of a string are resolved
  int line = 1;
};

// Returns the tokens; the last one is kEnd. White space is handled as with trim_blocks and
// lstrip_blocks on and keep_trailing_newline off, the settings of transformers. Returns
// kInvalidArgument with the line. REQUIRES: valid UTF-8.
Result<std::vector<JinjaToken>> LexJinja(std::string_view source);

// Returns kInvalidArgument with "chat template, line 3: message".
Status JinjaErrorAt(int line, const std::string& message);

// A cursor over tokens that both parsers advance. It keeps the first error and moves to the end
// then, where every rule of the grammar ends; what was parsed is of no use after an error.
class JinjaTokenReader {
 public:
  // REQUIRES: `tokens` ends with kEnd.
  explicit JinjaTokenReader(std::vector<JinjaToken> tokens) : tokens_(std::move(tokens)) {}

  const Status& status() const { return status_; }

  // Keeps the error if it is the first.
  void Fail(int line, const std::string& message) {
    if (status_.ok()) status_ = JinjaErrorAt(line, message);
    at_ = tokens_.size() - 1;
  }

  void FailUnexpected(const std::string& expected);

  const JinjaToken& current() const { return tokens_[at_]; }

  // The token after the current one, without moving.
  const JinjaToken& peek() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }

  int line() const { return current().line; }

  bool At(JinjaToken::Kind kind) const { return current().kind == kind; }

  bool AtOperator(std::string_view text) const {
    return At(JinjaToken::Kind::kOperator) && current().text == text;
  }

  bool AtName(std::string_view text) const {
    return At(JinjaToken::Kind::kName) && current().text == text;
  }

  // Returns the current token and moves to the next one.
  JinjaToken Next() {
    JinjaToken token = current();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }

  // Moves past the operator or name `text` if it is the current token, and returns whether it was.
  bool SkipOperator(std::string_view text) { return AtOperator(text) && (Next(), true); }

  bool SkipName(std::string_view text) { return AtName(text) && (Next(), true); }

  // Move past what is expected, or fail. ExpectAnyName returns "" then.
  void ExpectOperator(std::string_view text) {
    if (!SkipOperator(text)) FailUnexpected("'" + std::string(text) + "'");
  }

  void Expect(JinjaToken::Kind kind, const std::string& expected) {
    if (!At(kind)) return FailUnexpected(expected);
    Next();
  }

  std::string ExpectAnyName() {
    if (At(JinjaToken::Kind::kName)) return Next().text;
    FailUnexpected("a name");
    return "";
  }

  // Moves to the next item of a list that ends with the operator `end`, past the comma unless it is
  // the first. Returns false behind the end, before which there may be a comma, and after an error.
  bool NextItem(std::string_view end, bool first) {
    if (SkipOperator(end)) return false;
    if (!first) ExpectOperator(",");
    return !SkipOperator(end) && status_.ok();
  }

 private:
  std::vector<JinjaToken> tokens_;
  std::size_t at_ = 0;
  Status status_;
};

}  // namespace buttress
