// The parsers' place in the tokens.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/status.h"
#include "lib/jinja/lexer.h"

namespace buttress {

class JinjaTokenReader {
 public:
  // REQUIRES: `tokens` ends with kEnd.
  explicit JinjaTokenReader(std::vector<JinjaToken> tokens) : tokens_(std::move(tokens)) {}

  const JinjaToken& current() const { return tokens_[at_]; }

  const JinjaToken& next() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }

  int line() const { return current().line; }

  bool At(JinjaToken::Kind kind) const { return current().kind == kind; }

  bool AtOperator(std::string_view text) const {
    return At(JinjaToken::Kind::kOperator) && current().text == text;
  }

  bool AtName(std::string_view text) const {
    return At(JinjaToken::Kind::kName) && current().text == text;
  }

  JinjaToken Take() {
    JinjaToken token = current();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }

  bool TakeOperator(std::string_view text) { return AtOperator(text) && (Take(), true); }

  bool TakeName(std::string_view text) { return AtName(text) && (Take(), true); }

  Status ExpectOperator(std::string_view text) {
    if (TakeOperator(text)) return OkStatus();
    return Unexpected("'" + std::string(text) + "'");
  }

  Result<std::string> ExpectAnyName() {
    if (At(JinjaToken::Kind::kName)) return Take().text;
    return Unexpected("a name");
  }

  Status Expect(JinjaToken::Kind kind, std::string_view expected) {
    if (!At(kind)) return Unexpected(std::string(expected));
    Take();
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
