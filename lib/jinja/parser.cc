#include <fmt/core.h>

#include <algorithm>
#include <initializer_list>
#include <string>

#include "lib/jinja/expression_parser.h"
#include "lib/jinja/lexer.h"
#include "lib/jinja/syntax.h"

namespace buttress {
namespace {

constexpr int kBlockLevelsMax = 50;
constexpr std::size_t kSourceBytesMax = std::size_t{1} << 20;

using TokenKind = JinjaToken::Kind;
using StatementKind = JinjaStatement::Kind;
using Body = JinjaStatement::Body;
using Names = std::initializer_list<std::string_view>;

class JinjaParser {
 public:
  explicit JinjaParser(std::vector<JinjaToken> tokens)
      : tokens_(std::move(tokens)), expressions_(tokens_, program_) {}

  Result<JinjaProgram> Run() {
    program_.body = ParseBody({});
    BUTTRESS_RETURN_IF_ERROR(tokens_.status());
    return std::move(program_);
  }

 private:
  JinjaStatement& Make(StatementKind kind, int line) {
    JinjaStatement& statement = program_.statements.emplace_back();
    statement.kind = kind;
    statement.line = line;
    return statement;
  }

  // Parses statements up to a tag named in `ends`, whose name becomes the current token, or up to
  // the end of the template if `ends` is empty.
  Body ParseBody(Names ends) {
    if (++level_ > kBlockLevelsMax) {
      tokens_.Fail(tokens_.line(),
                   "blocks nested deeper than " + std::to_string(kBlockLevelsMax) + " levels");
    }
    Body body;
    while (!tokens_.At(TokenKind::kEnd)) {
      if (tokens_.At(TokenKind::kText)) {
        JinjaStatement& text = Make(StatementKind::kText, tokens_.line());
        text.text = tokens_.Next().text;
        body.push_back(&text);
      } else if (tokens_.At(TokenKind::kOutputBegin)) {
        JinjaStatement& output = Make(StatementKind::kOutput, tokens_.Next().line);
        output.value = expressions_.ExpressionOrTuple();
        tokens_.Expect(TokenKind::kOutputEnd, "'}}'");
        body.push_back(&output);
      } else {
        tokens_.Expect(TokenKind::kBlockBegin, "a tag");
        if (tokens_.At(TokenKind::kName) && std::ranges::count(ends, tokens_.current().text) > 0) {
          --level_;
          return body;
        }
        body.push_back(ParseStatement());
      }
    }
    if (ends.size() > 0) tokens_.FailUnexpected("'" + std::string(*(ends.end() - 1)) + "'");
    --level_;
    return body;
  }

  void EndTag() { tokens_.Expect(TokenKind::kBlockEnd, "'%}'"); }

  const JinjaStatement* ParseStatement() {
    const int line = tokens_.line();
    const std::string name = tokens_.ExpectAnyName();
    if (name == "if") return ParseIf(line);
    if (name == "for") return ParseFor(line);
    if (name == "set") return ParseSet(line);
    if (name == "macro") return ParseMacro(line);
    if (name == "generation") return ParseGeneration(line);
    if (name == "break" || name == "continue") {
      if (loops_ == 0) tokens_.Fail(line, "'" + name + "' outside a loop");
      EndTag();
      return &Make(name == "break" ? StatementKind::kBreak : StatementKind::kContinue, line);
    }
    tokens_.Fail(line, "statement '" + name + "' is not supported here");
    return nullptr;
  }

  // Parses `else`, if it is the current token, with its body, and the end of the statement.
  Body ParseElse(std::string_view end) {
    Body body;
    if (tokens_.Next().text == "else") {
      EndTag();
      body = ParseBody({end});
      tokens_.Next();
    }
    EndTag();
    return body;
  }

  const JinjaStatement* ParseIf(int line) {
    JinjaStatement& statement = Make(StatementKind::kIf, line);
    do {
      JinjaStatement::Branch& branch = statement.branches.emplace_back();
      branch.condition = expressions_.ExpressionOrTuple();
      EndTag();
      branch.body = ParseBody({"elif", "else", "endif"});
    } while (tokens_.SkipName("elif"));
    statement.else_body = ParseElse("endif");
    return &statement;
  }

  const JinjaStatement* ParseFor(int line) {
    JinjaStatement& statement = Make(StatementKind::kFor, line);
    statement.target = ParseTarget();
    if (!statement.target.attribute.empty()) tokens_.Fail(line, "a loop over an attribute");
    if (!tokens_.SkipName("in")) tokens_.FailUnexpected("'in'");
    statement.value = expressions_.ExpressionWithoutCondition();
    if (tokens_.SkipName("if")) statement.condition = expressions_.Expression();
    if (tokens_.AtName("recursive")) tokens_.Fail(tokens_.line(), "'recursive' is not supported");
    EndTag();
    ++loops_;
    statement.body = ParseBody({"else", "endfor"});
    --loops_;
    statement.else_body = ParseElse("endfor");
    return &statement;
  }

  JinjaTarget ParseTarget() {
    JinjaTarget target;
    const bool parentheses = tokens_.SkipOperator("(");
    target.names.push_back(tokens_.ExpectAnyName());
    if (!parentheses && tokens_.SkipOperator(".")) {
      target.attribute = tokens_.ExpectAnyName();
      return target;
    }
    while (tokens_.SkipOperator(",")) {
      target.unpacks = true;
      if (!tokens_.At(TokenKind::kName) || tokens_.AtName("in")) break;
      target.names.push_back(tokens_.ExpectAnyName());
    }
    if (parentheses) tokens_.ExpectOperator(")");
    return target;
  }

  const JinjaStatement* ParseSet(int line) {
    JinjaStatement& statement = Make(StatementKind::kSet, line);
    statement.target = ParseTarget();
    if (tokens_.SkipOperator("=")) {
      statement.value = expressions_.ExpressionOrTuple();
      EndTag();
      return &statement;
    }
    if (tokens_.AtOperator("|")) tokens_.Fail(line, "a set block with a filter is not supported");
    EndTag();
    statement.kind = StatementKind::kSetBlock;
    statement.body = ParseScope("endset");
    return &statement;
  }

  const JinjaStatement* ParseMacro(int line) {
    // A macro sees the enclosing names. Only those at the top outlive every call.
    if (scopes_ > 0 || loops_ > 0)
      tokens_.Fail(line, "a macro inside a loop, a macro or a set block is not supported");
    JinjaStatement& statement = Make(StatementKind::kMacro, line);
    statement.text = tokens_.ExpectAnyName();
    tokens_.ExpectOperator("(");
    while (tokens_.NextItem(")", statement.parameters.empty())) {
      JinjaStatement::Parameter& parameter = statement.parameters.emplace_back();
      parameter.name = tokens_.ExpectAnyName();
      if (tokens_.SkipOperator("=")) parameter.absent = expressions_.Expression();
    }
    EndTag();
    statement.body = ParseScope("endmacro");
    return &statement;
  }

  // A tag of transformers: marks the assistant's text and prints its body.
  const JinjaStatement* ParseGeneration(int line) {
    EndTag();
    JinjaStatement& statement = Make(StatementKind::kScope, line);
    statement.body = ParseScope("endgeneration");
    return &statement;
  }

  // Parses a body with names of its own, and its end tag. break and continue cannot leave it.
  Body ParseScope(std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    ++scopes_;
    Body body = ParseBody({end});
    --scopes_;
    loops_ = loops;
    tokens_.Next();
    EndTag();
    return body;
  }

  JinjaTokenReader tokens_;
  JinjaProgram program_;
  JinjaExpressionParser expressions_;
  int level_ = 0;
  int loops_ = 0;
  int scopes_ = 0;
};

}  // namespace

Result<JinjaProgram> ParseJinja(std::string_view source) {
  if (source.size() > kSourceBytesMax) {
    return InvalidArgument(fmt::format("chat template of {} bytes; at most {} are supported",
                                       source.size(), kSourceBytesMax));
  }
  BUTTRESS_ASSIGN_OR_RETURN(std::vector<JinjaToken> tokens, LexJinja(source));
  return JinjaParser(std::move(tokens)).Run();
}

}  // namespace buttress
