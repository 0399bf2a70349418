#include "lib/verify/json/bounded_json.h"

#include <algorithm>
#include <string>

namespace buttress {
namespace {

// Returns the depth of brackets outside strings. The depth of a text that is not JSON is arbitrary.
int Depth(std::string_view text) {
  int depth = 0;
  int deepest = 0;
  bool string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (string) {
      if (c == '\\') ++i;
      if (c == '"') string = false;
      continue;
    }
    if (c == '"') string = true;
    if (c == '[' || c == '{') deepest = std::max(deepest, ++depth);
    if (c == ']' || c == '}') --depth;
  }
  return deepest;
}

}  // namespace

Result<nlohmann::json> ParseBoundedJson(std::string_view text, std::size_t max_bytes) {
  if (text.size() > max_bytes)
    return InvalidArgument("more than " + std::to_string(max_bytes) + " bytes of JSON");
  if (Depth(text) > kMaxJsonDepth)
    return InvalidArgument("JSON nested deeper than " + std::to_string(kMaxJsonDepth));
  nlohmann::json value = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return InvalidArgument("not JSON");
  return value;
}

}  // namespace buttress
