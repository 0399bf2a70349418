#include "cli/verify_rows.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "lib/base/bounded_json.h"

namespace buttress {
namespace {

using nlohmann::json;

std::string Text(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::optional<bool> Label(const json& value) {
  if (value == true || value == 1 || value == "correct") return true;
  if (value == false || value == 0 || value == "wrong") return false;
  return std::nullopt;
}

// Returns a field of `row` as an array: the plural field ("responses") as it is, or the singular
// field ("response") as an array of one element.
Result<json> FieldAsArray(const json& row, const std::string& one, bool is_group) {
  const std::string name = is_group ? one + "s" : one;
  if (!row.contains(name)) return DataLoss("no field '" + name + "'");
  if (!is_group) return json::array({row[name]});
  if (!row[name].is_array()) return DataLoss("'" + name + "' is not an array");
  return row[name];
}

Status Read(const json& row, VerifyRow& parsed) {
  if (row.contains("prompt")) parsed.prompt = Text(row["prompt"]);
  if (!row.contains("answer")) return DataLoss("no field 'answer'");
  parsed.answer = Text(row["answer"]);
  parsed.is_group = row.contains("responses");
  BUTTRESS_ASSIGN_OR_RETURN(const json responses, FieldAsArray(row, "response", parsed.is_group));
  for (const json& response : responses) parsed.responses.push_back(Text(response));
  const std::string labels_name = parsed.is_group ? "labels" : "label";
  if (!row.contains(labels_name) || row[labels_name].is_null()) return OkStatus();
  BUTTRESS_ASSIGN_OR_RETURN(const json labels, FieldAsArray(row, "label", parsed.is_group));
  if (labels.size() != parsed.responses.size()) {
    return DataLoss(
        fmt::format("{} labels for {} responses", labels.size(), parsed.responses.size()));
  }
  for (const json& value : labels) {
    const std::optional<bool> label = Label(value);
    if (!label)
      return DataLoss("label " + value.dump() +
                      "; expected true, false, 1, 0, \"correct\" or \"wrong\"");
    parsed.labels.push_back(*label);
  }
  return OkStatus();
}

}  // namespace

Result<VerifyRow> ParseVerifyRow(const std::string& line, std::int64_t number) {
  const std::string where = "line " + std::to_string(number);
  if (NestedDeeper(line))
    return DataLoss(where + ": nested deeper than " + std::to_string(kMaxJsonDepth));
  const json row = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!row.is_object()) return DataLoss(where + ": not a JSON object");
  VerifyRow parsed;
  parsed.json_id = number;
  if (row.contains("id")) parsed.json_id = row["id"];
  parsed.id = Text(parsed.json_id);
  parsed.json = line;
  if (const Status status = Read(row, parsed); !status.ok()) return status.Annotate(where);
  return parsed;
}

}  // namespace buttress
