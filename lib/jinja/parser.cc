#include <fmt/core.h>

#include <algorithm>
#include <initializer_list>
#include <string>

#include "lib/jinja/expression_parser.h"
#include "lib/jinja/lexer.h"
#include "lib/jinja/syntax.h"
#include "lib/jinja/token_reader.h"

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
    BUTTRESS_ASSIGN_OR_RETURN(program_.body, ParseBody({}));
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
  Result<Body> ParseBody(Names ends) {
    if (++level_ > kBlockLevelsMax) {
      return JinjaErrorAt(tokens_.line(), "blocks nested deeper than " +
                                              std::to_string(kBlockLevelsMax) + " levels");
    }
    Body body;
    while (!tokens_.At(TokenKind::kEnd)) {
      if (tokens_.At(TokenKind::kText)) {
        JinjaStatement& text = Make(StatementKind::kText, tokens_.line());
        text.text = tokens_.Next().text;
        body.push_back(&text);
      } else if (tokens_.At(TokenKind::kOutputBegin)) {
        BUTTRESS_ASSIGN_OR_RETURN(const JinjaStatement* output, ParseOutput());
        body.push_back(output);
      } else {
        BUTTRESS_RETURN_IF_ERROR(tokens_.Expect(TokenKind::kBlockBegin, "a tag"));
        const std::string& name = tokens_.current().text;
        if (tokens_.At(TokenKind::kName) &&
            std::find(ends.begin(), ends.end(), name) != ends.end()) {
          --level_;
          return body;
        }
        BUTTRESS_ASSIGN_OR_RETURN(const JinjaStatement* statement, ParseStatement());
        body.push_back(statement);
      }
    }
    if (ends.size() > 0) return tokens_.Unexpected("'" + std::string(*(ends.end() - 1)) + "'");
    --level_;
    return body;
  }

  Result<const JinjaStatement*> ParseOutput() {
    JinjaStatement& output = Make(StatementKind::kOutput, tokens_.Next().line);
    BUTTRESS_ASSIGN_OR_RETURN(output.value, expressions_.ExpressionOrTuple());
    BUTTRESS_RETURN_IF_ERROR(tokens_.Expect(TokenKind::kOutputEnd, "'}}'"));
    return &output;
  }

  Status EndTag() { return tokens_.Expect(TokenKind::kBlockEnd, "'%}'"); }

  Result<const JinjaStatement*> ParseStatement() {
    const int line = tokens_.line();
    BUTTRESS_ASSIGN_OR_RETURN(const std::string name, tokens_.ExpectAnyName());
    if (name == "if") return ParseIf(line);
    if (name == "for") return ParseFor(line);
    if (name == "set") return ParseSet(line);
    if (name == "macro") return ParseMacro(line);
    if (name == "generation") return ParseGeneration(line);
    if (name == "break" || name == "continue") {
      if (loops_ == 0) return JinjaErrorAt(line, "'" + name + "' outside a loop");
      BUTTRESS_RETURN_IF_ERROR(EndTag());
      return &Make(name == "break" ? StatementKind::kBreak : StatementKind::kContinue, line);
    }
    return JinjaErrorAt(line, "statement '" + name + "' is not supported here");
  }

  Result<const JinjaStatement*> ParseIf(int line) {
    JinjaStatement& statement = Make(StatementKind::kIf, line);
    while (true) {
      JinjaStatement::Branch branch;
      BUTTRESS_ASSIGN_OR_RETURN(branch.condition, expressions_.ExpressionOrTuple());
      BUTTRESS_RETURN_IF_ERROR(EndTag());
      BUTTRESS_ASSIGN_OR_RETURN(branch.body, ParseBody({"elif", "else", "endif"}));
      statement.branches.push_back(std::move(branch));
      const std::string end = tokens_.Next().text;
      if (end == "elif") continue;
      if (end == "else") {
        BUTTRESS_RETURN_IF_ERROR(EndTag());
        BUTTRESS_ASSIGN_OR_RETURN(statement.else_body, ParseBody({"endif"}));
        tokens_.Next();
      }
      BUTTRESS_RETURN_IF_ERROR(EndTag());
      return &statement;
    }
  }

  Result<const JinjaStatement*> ParseFor(int line) {
    JinjaStatement& statement = Make(StatementKind::kFor, line);
    BUTTRESS_ASSIGN_OR_RETURN(statement.target, ParseTarget());
    if (!statement.target.attribute.empty()) return JinjaErrorAt(line, "a loop over an attribute");
    if (!tokens_.SkipName("in")) return tokens_.Unexpected("'in'");
    BUTTRESS_ASSIGN_OR_RETURN(statement.value, expressions_.ExpressionWithoutCondition());
    if (tokens_.SkipName("if")) {
      BUTTRESS_ASSIGN_OR_RETURN(statement.condition, expressions_.Expression());
    }
    if (tokens_.AtName("recursive")) {
      return JinjaErrorAt(tokens_.line(), "'recursive' is not supported");
    }
    BUTTRESS_RETURN_IF_ERROR(EndTag());
    ++loops_;
    BUTTRESS_ASSIGN_OR_RETURN(statement.body, ParseBody({"else", "endfor"}));
    --loops_;
    if (tokens_.Next().text == "else") {
      BUTTRESS_RETURN_IF_ERROR(EndTag());
      BUTTRESS_ASSIGN_OR_RETURN(statement.else_body, ParseBody({"endfor"}));
      tokens_.Next();
    }
    BUTTRESS_RETURN_IF_ERROR(EndTag());
    return &statement;
  }

  Result<JinjaTarget> ParseTarget() {
    JinjaTarget target;
    const bool parentheses = tokens_.SkipOperator("(");
    BUTTRESS_ASSIGN_OR_RETURN(std::string first, tokens_.ExpectAnyName());
    target.names.push_back(std::move(first));
    if (!parentheses && tokens_.SkipOperator(".")) {
      BUTTRESS_ASSIGN_OR_RETURN(target.attribute, tokens_.ExpectAnyName());
      return target;
    }
    while (tokens_.SkipOperator(",")) {
      target.unpacks = true;
      if (!tokens_.At(TokenKind::kName) || tokens_.AtName("in")) break;
      BUTTRESS_ASSIGN_OR_RETURN(std::string name, tokens_.ExpectAnyName());
      target.names.push_back(std::move(name));
    }
    if (parentheses) BUTTRESS_RETURN_IF_ERROR(tokens_.ExpectOperator(")"));
    return target;
  }

  Result<const JinjaStatement*> ParseSet(int line) {
    JinjaStatement& statement = Make(StatementKind::kSet, line);
    BUTTRESS_ASSIGN_OR_RETURN(statement.target, ParseTarget());
    if (tokens_.SkipOperator("=")) {
      BUTTRESS_ASSIGN_OR_RETURN(statement.value, expressions_.ExpressionOrTuple());
      BUTTRESS_RETURN_IF_ERROR(EndTag());
      return &statement;
    }
    if (tokens_.AtOperator("|")) {
      return JinjaErrorAt(line, "a set block with a filter is not supported");
    }
    BUTTRESS_RETURN_IF_ERROR(EndTag());
    statement.kind = StatementKind::kSetBlock;
    BUTTRESS_ASSIGN_OR_RETURN(statement.body, ParseScope({"endset"}));
    return &statement;
  }

  Result<const JinjaStatement*> ParseMacro(int line) {
    // A macro sees the enclosing names. Only those at the top outlive every call.
    if (scopes_ > 0 || loops_ > 0) {
      return JinjaErrorAt(line, "a macro inside a loop, a macro or a set block is not supported");
    }
    JinjaStatement& statement = Make(StatementKind::kMacro, line);
    BUTTRESS_ASSIGN_OR_RETURN(statement.text, tokens_.ExpectAnyName());
    BUTTRESS_RETURN_IF_ERROR(tokens_.ExpectOperator("("));
    while (!tokens_.SkipOperator(")")) {
      if (!statement.parameters.empty()) BUTTRESS_RETURN_IF_ERROR(tokens_.ExpectOperator(","));
      if (!statement.parameters.empty() && tokens_.SkipOperator(")")) break;
      JinjaStatement::Parameter parameter;
      BUTTRESS_ASSIGN_OR_RETURN(parameter.name, tokens_.ExpectAnyName());
      if (tokens_.SkipOperator("=")) {
        BUTTRESS_ASSIGN_OR_RETURN(parameter.absent, expressions_.Expression());
      }
      statement.parameters.push_back(std::move(parameter));
    }
    BUTTRESS_RETURN_IF_ERROR(EndTag());
    BUTTRESS_ASSIGN_OR_RETURN(statement.body, ParseScope({"endmacro"}));
    return &statement;
  }

  // A tag of transformers: marks the assistant's text and prints its body.
  Result<const JinjaStatement*> ParseGeneration(int line) {
    BUTTRESS_RETURN_IF_ERROR(EndTag());
    JinjaStatement& statement = Make(StatementKind::kScope, line);
    BUTTRESS_ASSIGN_OR_RETURN(statement.body, ParseScope({"endgeneration"}));
    return &statement;
  }

  // Parses a body with names of its own, and its end tag. break and continue cannot leave it.
  Result<Body> ParseScope(Names ends) {
    const int loops = loops_;
    loops_ = 0;
    ++scopes_;
    BUTTRESS_ASSIGN_OR_RETURN(Body body, ParseBody(ends));
    --scopes_;
    loops_ = loops;
    tokens_.Next();
    BUTTRESS_RETURN_IF_ERROR(EndTag());
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
