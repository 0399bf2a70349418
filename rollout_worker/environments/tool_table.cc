#include "rollout_worker/environments/tool.h"

namespace buttress {
namespace {

constexpr ToolRow kToolRows[] = {
    {"calculator", "Computes the exact value of an arithmetic expression.", "expression",
     "for example (3 + 4) * 2^10 / 7, sqrt(2) or 12!", MakeCalculator},
    {"python", "Runs a Python program and returns what it prints.", "code",
     "the program; it has no network, and nothing is kept between calls", MakePythonTool},
    {"search", "Finds the paragraphs of a text that have the words of a query.", "query",
     "words to look for", MakeSearch},
};

}  // namespace

std::span<const ToolRow> ToolRows() { return kToolRows; }

nlohmann::ordered_json DescriptionOf(const ToolRow& row) {
  using nlohmann::ordered_json;
  const std::string parameter(row.parameter);
  ordered_json properties;
  properties[parameter] = {{"type", "string"}, {"description", row.meaning}};
  const ordered_json parameters = {{"type", "object"},
                                   {"properties", properties},
                                   {"required", ordered_json::array({parameter})}};
  const ordered_json function = {
      {"name", row.name}, {"description", row.description}, {"parameters", parameters}};
  return {{"type", "function"}, {"function", function}};
}

}  // namespace buttress
