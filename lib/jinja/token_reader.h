// A cursor over tokens that both parsers advance.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/jinja/lexer.h"

namespace buttress {

class JinjaTokenReader {
 public:
  // REQUIRES: `tokens` ends with kEnd.
  explicit JinjaTokenReader(std::vector<JinjaToken> tokens) : tokens_(std::move(tokens)) {}

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

  Status ExpectOperator(std::string_view text) {
    if (SkipOperator(text)) return OkStatus();
    return Unexpected("'" + std::string(text) + "'");
  }

  Result<std::string> ExpectAnyName() {
    if (At(JinjaToken::Kind::kName)) return Next().text;
    return Unexpected("a name");
  }

  Status Expect(JinjaToken::Kind kind, std::string_view expected) {
    if (!At(kind)) return Unexpected(std::string(expected));
    Next();
    return OkStatus();
  }

  Status Unexpected(const std::string& expected) const {
    return JinjaErrorAt(line(),
                        "unexpected " + Describe(current()) + "; " + expected + " is expected");
  }

 private:
  static std::string Describe(const JinjaToken& token) {
    switch (token.kind) {
      case JinjaToken::Kind::kText:
        return "text";
      case JinjaToken::Kind::kOutputBegin:
        return "'{{'";
      case JinjaToken::Kind::kOutputEnd:
        return "'}}'";
      case JinjaToken::Kind::kBlockBegin:
        return "'{%'";
      case JinjaToken::Kind::kBlockEnd:
        return "'%}'";
      case JinjaToken::Kind::kEnd:
        return "end of the template";
      default:
        return "'" + token.text + "'";
    }
  }

  std::vector<JinjaToken> tokens_;
  std::size_t at_ = 0;
};

}  // namespace buttress
