#include "lib/base/text/bounded_json.h"

#include <string>

namespace buttress {
bool NestedDeeper(std::string_view text, int max_depth) {
  int depth = 0;
  bool string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (string) {
      if (c == '\\') ++i;
      if (c == '"') string = false;
      continue;
    }
    if (c == '"') string = true;
    if ((c == '[' || c == '{') && ++depth > max_depth) return true;
    if (c == ']' || c == '}') --depth;
  }
  return false;
}

Result<nlohmann::json> ParseBoundedJson(std::string_view text, std::size_t max_bytes) {
  if (text.size() > max_bytes)
    return InvalidArgument("more than " + std::to_string(max_bytes) + " bytes of JSON");
  if (NestedDeeper(text))
    return InvalidArgument("JSON nested deeper than " + std::to_string(kMaxJsonDepth));
  nlohmann::json value = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return InvalidArgument("not JSON");
  return value;
}

}  // namespace buttress
