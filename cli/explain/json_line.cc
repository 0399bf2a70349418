#include "cli/explain/json_line.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/base/text/bounded_json.h"
#include "lib/base/text/json_fault.h"
#include "lib/base/text/unicode.h"

namespace buttress {
namespace {

using nlohmann::json;

constexpr std::size_t kShownBytes = 30;

// The line with null for NaN and Infinity outside of strings.
std::string Repaired(std::string_view line) {
  std::string repaired;
  bool in_string = false;
  for (std::size_t at = 0; at < line.size();) {
    if (!in_string) {
      const std::string_view rest = line.substr(at);
      const std::string_view words[] = {"NaN", "-Infinity", "Infinity"};
      const auto word =
          std::ranges::find_if(words, [&](std::string_view w) { return rest.starts_with(w); });
      if (word != std::end(words)) {
        repaired += "null";
        at += word->size();
        continue;
      }
    }
    if (line[at] == '"') in_string = !in_string;
    if (line[at] == '\\' && at + 1 < line.size()) repaired += line[at++];
    repaired += line[at++];
  }
  return repaired;
}

// What surrounds the byte `at` of a text, without what a terminal takes for a command.
std::string Around(std::string_view text, std::size_t at) {
  const std::size_t begin = at - std::min(at, kShownBytes);
  std::string shown = ReplaceInvalidUtf8(text.substr(begin, 2 * kShownBytes));
  std::ranges::replace_if(
      shown, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; }, ' ');
  return (begin > 0 ? "..." : "") + shown;
}

}  // namespace

json ParseLine(std::string_view line) {
  if (NestedDeeper(line)) return json(json::value_t::discarded);
  json parsed = json::parse(line, nullptr, /*allow_exceptions=*/false);
  return parsed.is_discarded() ? json::parse(Repaired(line), nullptr, false) : parsed;
}

std::string WhyNoObject(std::string_view line) {
  if (NestedDeeper(line)) return fmt::format("it is nested deeper than {} levels", kMaxJsonDepth);
  // A repair moves the bytes behind it; those that are not UTF-8 are named as the file has them.
  const std::string text = FirstInvalidUtf8(line) ? std::string(line) : Repaired(line);
  const auto [what, at] = FaultOfJson(text);
  if (!at) return what;
  return what + (*at < text.size() ? ": " : " after: ") + Around(text, *at);
}

}  // namespace buttress
