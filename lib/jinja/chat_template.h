// Renders Hugging Face chat templates, which are written in Jinja.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "lib/base/report/status.h"

namespace buttress {

struct JinjaProgram;

// A parsed template. Copies share the parsed form. Thread-safe.
class ChatTemplate {
 public:
  // Returns kInvalidArgument for a template that does not parse; the message names the line and,
  // where a construct is not supported, the construct.
  static Result<ChatTemplate> Parse(std::string_view source);

  // Renders a conversation. `messages` is a JSON array of {"role", "content"}; `variables` is a
  // JSON object of further names that the template may use (eos_token, tools, ...). Filters such as
  // tojson show the members of an object in their order.
  //
  // Returns kInvalidArgument if the template calls raise_exception, with the text of the call, and
  // kResourceExhausted if rendering exceeds a bound of JinjaEvaluator.
  Result<std::string> Render(const nlohmann::ordered_json& messages, bool add_generation_prompt,
                             const nlohmann::ordered_json& variables) const;

 private:
  explicit ChatTemplate(std::shared_ptr<const JinjaProgram> program)
      : program_(std::move(program)) {}

  std::shared_ptr<const JinjaProgram> program_;
};

}  // namespace buttress
