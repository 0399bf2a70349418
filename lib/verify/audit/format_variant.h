// Responses that give one answer in different dress: what a verifier must judge alike.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace buttress {

struct FormatVariant {
  std::string_view name;
  std::string response;
};

// `answer` in LaTeX, without what would announce it.
std::vector<FormatVariant> FormatVariants(std::string_view answer);

}  // namespace buttress
