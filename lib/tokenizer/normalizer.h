// Rewrites a text before it is split into words: the normalizer of a tokenizer.json.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/tokenizer/regex.h"

namespace buttress {

// NFC, Prepend, Replace and a Sequence of these. Thread-safe.
class Normalizer {
 public:
  // kInvalidArgument names a type that is not supported.
  static Result<Normalizer> FromJson(const nlohmann::json& spec);

  // REQUIRES: `text` is valid UTF-8.
  Result<std::string> Normalize(std::string_view text) const;

 private:
  // One of: a pattern to replace by `text`; `text` to put before a text that is not empty; NFC.
  struct Step {
    std::optional<Regex> pattern;
    std::optional<std::string> text;
  };

  Status Add(const nlohmann::json& spec, const std::string& path);

  std::vector<Step> steps_;
};

}  // namespace buttress
