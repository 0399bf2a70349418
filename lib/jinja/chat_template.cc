#include "lib/jinja/chat_template.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "lib/base/text/unicode.h"
#include "lib/jinja/evaluator.h"
#include "lib/jinja/syntax.h"

namespace buttress {

Result<ChatTemplate> ChatTemplate::Parse(std::string_view source) {
  if (const auto invalid = FirstInvalidUtf8(source); invalid.has_value()) {
    return InvalidArgument(fmt::format("the chat template is not UTF-8 at byte {}", *invalid));
  }
  BUTTRESS_ASSIGN_OR_RETURN(JinjaProgram program, ParseJinja(source));
  return ChatTemplate(std::make_shared<const JinjaProgram>(std::move(program)));
}

Result<std::string> ChatTemplate::Render(const nlohmann::ordered_json& messages,
                                         bool add_generation_prompt,
                                         const nlohmann::ordered_json& variables) const {
  if (!variables.is_null() && !variables.is_object()) {
    return InvalidArgument("the chat template's variables are not a JSON object");
  }
  JinjaScope globals;
  // transformers always passes these two; they are none unless the caller gives them.
  globals.Set("tools", JinjaValue());
  globals.Set("documents", JinjaValue());
  for (const auto& [name, variable] : variables.items()) {
    BUTTRESS_ASSIGN_OR_RETURN(JinjaValue value, JinjaValue::FromJson(variable));
    globals.Set(name, std::move(value));
  }
  BUTTRESS_ASSIGN_OR_RETURN(JinjaValue converted, JinjaValue::FromJson(messages));
  globals.Set("messages", std::move(converted));
  globals.Set("add_generation_prompt", JinjaValue(add_generation_prompt));
  return JinjaEvaluator(std::move(globals)).Render(*program_);
}

}  // namespace buttress
