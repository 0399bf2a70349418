#include "lib/tokenizer/chat_template.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "lib/tokenizer/jinja/evaluator.h"
#include "lib/tokenizer/jinja/parser.h"
#include "lib/tokenizer/unicode.h"

namespace buttress {
namespace {

class JinjaChatTemplate : public ChatTemplate {
 public:
  explicit JinjaChatTemplate(JinjaProgram program) : program_(std::move(program)) {}

  Result<std::string> Render(const nlohmann::json& messages, bool add_generation_prompt,
                             const nlohmann::json& variables) const override {
    JinjaScope globals;
    // transformers passes these always, as none where the caller has none.
    globals.Set("tools", JinjaValue());
    globals.Set("documents", JinjaValue());
    if (!variables.is_null() && !variables.is_object()) {
      return InvalidArgument("the chat template's variables are not a JSON object");
    }
    for (const auto& [name, variable] : variables.items()) {
      BUTTRESS_ASSIGN_OR_RETURN(JinjaValue value, JinjaValue::FromJson(variable));
      globals.Set(name, std::move(value));
    }
    BUTTRESS_ASSIGN_OR_RETURN(JinjaValue converted, JinjaValue::FromJson(messages));
    globals.Set("messages", std::move(converted));
    globals.Set("add_generation_prompt", JinjaValue(add_generation_prompt));
    return JinjaEvaluator(std::move(globals)).Render(program_);
  }

 private:
  JinjaProgram program_;
};

}  // namespace

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::Parse(std::string_view source) {
  if (const auto invalid = FirstInvalidUtf8(source); invalid.has_value()) {
    return InvalidArgument("the chat template is not UTF-8 at byte " + std::to_string(*invalid));
  }
  BUTTRESS_ASSIGN_OR_RETURN(JinjaProgram program, ParseJinja(source));
  return std::unique_ptr<ChatTemplate>(std::make_unique<JinjaChatTemplate>(std::move(program)));
}

}  // namespace buttress
