#include "lib/base/text/json_fault.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/base/text/unicode.h"

namespace buttress {
namespace {

using nlohmann::json;

// The number at `at` that Python and JavaScript write and JSON has not; empty if there is none. The
// parser complains about any of its letters.
std::string_view ForeignNumber(std::string_view text, std::size_t at) {
  for (const std::string_view word : {"NaN", "Infinity"}) {
    const std::size_t found = text.find(word, at - std::min(at, word.size()));
    if (found != std::string_view::npos && found <= at) return word;
  }
  return {};
}

}  // namespace

JsonFault FaultOfJson(std::string_view text) {
  if (const auto bad = FirstInvalidUtf8(text))
    return {fmt::format("byte {} is not UTF-8", *bad + 1), *bad};
  try {
    return {fmt::format("it is of the type {}", json::parse(text).type_name()), 0};
  } catch (const json::parse_error& error) {
    // `byte` counts from 1, and is behind the text where that breaks off.
    const std::size_t at = error.byte > 0 ? error.byte - 1 : 0;
    if (at >= text.size()) return {"it breaks off", text.size()};
    const std::string_view word = ForeignNumber(text, at);
    if (word.empty()) return {fmt::format("byte {} is no JSON", at + 1), at};
    return {fmt::format("it has {}, which JSON has not; write null", word), at};
  } catch (const json::exception&) {  // a number that no double holds
    return {"it has a number beyond all bounds", std::nullopt};
  }
}

std::string WhyNoJsonObject(std::string_view text) {
  return "not a JSON object: " + FaultOfJson(text).what;
}

}  // namespace buttress
