#include "cli/explain/metric_line.h"

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/explain/dump_row.h"

namespace buttress {
namespace {

using nlohmann::json;

constexpr int kDepthMax = 4;

// A number, perhaps as numpy prints it: np.float64(0.5).
std::optional<double> Number(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\'' || text.front() == '"'))
    text.remove_prefix(1);
  if (text.starts_with("np.")) text.remove_prefix(std::min(text.size(), text.find('(') + 1));
  const std::string copy(text.substr(0, 40));
  char* end = nullptr;
  const double value = std::strtod(copy.c_str(), &end);
  if (end == copy.c_str() || !std::isfinite(value)) return std::nullopt;
  return value;
}

void Flatten(const json& object, const std::string& prefix, int depth, MetricLine& line) {
  for (const auto& [name, value] : object.items()) {
    const std::string key = prefix.empty() ? name : prefix + "/" + name;
    if (value.is_object() && depth < kDepthMax) {
      Flatten(value, key, depth + 1, line);
    } else if (value.is_number()) {
      line.values[key] = value.get<double>();
    } else if (value.is_string()) {
      if (const auto number = Number(value.get_ref<const std::string&>()))
        line.values[key] = *number;
    }
  }
}

void SetStep(MetricLine& line) {
  for (const char* name : {"step", "global_step", "_step", "training/global_step",
                           "data/training/global_step", "trainer/global_step"}) {
    const auto found = line.values.find(name);
    if (found == line.values.end() || std::abs(found->second) > 1e15) continue;
    line.step = static_cast<std::int64_t>(found->second);
    return;
  }
}

// step:3 - a/b:0.5 - c:1
void ReadPairs(std::string_view rest, MetricLine& line) {
  constexpr std::string_view kBetween = " - ";
  while (!rest.empty()) {
    const std::size_t end = rest.find(kBetween);
    const std::string_view pair = rest.substr(0, end);
    const std::size_t colon = pair.find(':');
    if (colon != std::string_view::npos) {
      if (const auto value = Number(pair.substr(colon + 1)))
        line.values[std::string(pair.substr(0, colon))] = *value;
    }
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + kBetween.size());
  }
  SetStep(line);
}

// {'a': 0.5, 'b': '1'}
void ReadDict(std::string_view rest, MetricLine& line) {
  while (true) {
    const std::size_t begin = rest.find('\'');
    if (begin == std::string_view::npos) break;
    rest.remove_prefix(begin + 1);
    const std::size_t end = rest.find('\'');
    if (end == std::string_view::npos) break;
    const std::string key(rest.substr(0, end));
    rest.remove_prefix(end + 1);
    if (!rest.starts_with(':')) continue;
    rest.remove_prefix(1);
    if (const auto value = Number(rest)) line.values[key] = *value;
    // A text's own quotes are not those of a key.
    if (rest.starts_with(" '")) {
      const std::size_t close = rest.find('\'', 2);
      rest.remove_prefix(close == std::string_view::npos ? rest.size() : close + 1);
    }
  }
  SetStep(line);
}

}  // namespace

MetricLine ReadMetricObject(const json& object) {
  MetricLine line;
  if (object.is_object()) Flatten(object, "", 0, line);
  SetStep(line);
  return line;
}

MetricLine ReadMetricLine(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  if (text[first] == '{') {
    const json object = ParseLine(text);
    if (object.is_object()) return ReadMetricObject(object);
  }
  MetricLine line;
  constexpr std::string_view kVerl = "step:";
  constexpr std::string_view kOpenRlhf = "Global step ";
  if (const std::size_t at = text.find(kVerl);
      at != std::string_view::npos && text.find(" - ", at) != std::string_view::npos) {
    ReadPairs(text.substr(at), line);
  } else if (const std::size_t dict = text.find("{'"); dict != std::string_view::npos) {
    const std::size_t global = text.find(kOpenRlhf);
    if (global < dict) {
      if (const auto step = Number(text.substr(global + kOpenRlhf.size())))
        line.values["global_step"] = *step;
    }
    ReadDict(text.substr(dict), line);
  }
  return line;
}

}  // namespace buttress
