// Responses that give the same answer in different formats. A verifier must judge them alike.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace buttress {

struct FormatVariant {
  std::string_view name;
  std::string response;
};

// Returns responses with `answer`, which is in LaTeX and without an anchor such as \boxed.
std::vector<FormatVariant> FormatVariants(std::string_view answer);

}  // namespace buttress
