// Renders Hugging Face chat templates (Jinja) to text.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "lib/base/status.h"

namespace buttress {

// A parsed template. Thread-safe.
class ChatTemplate {
 public:
  // kInvalidArgument names the line and the construct that is not supported.
  static Result<std::unique_ptr<ChatTemplate>> Parse(std::string_view source);

  virtual ~ChatTemplate() = default;

  // `messages`: a JSON array of {"role", "content"}. `variables`: further names of the template
  // (bos_token, eos_token, tools, ...). A template that calls raise_exception gives
  // kInvalidArgument with its text.
  virtual Result<std::string> Render(const nlohmann::json& messages, bool add_generation_prompt,
                                     const nlohmann::json& variables) const = 0;
};

}  // namespace buttress
