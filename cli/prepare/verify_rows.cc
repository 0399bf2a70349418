#include "cli/prepare/verify_rows.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "lib/config/run_config.h"
#include "lib/data/field_path.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

std::string Text(const ordered_json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

bool IsMessages(const ordered_json& value) {
  return value.is_array() && !value.empty() &&
         std::ranges::all_of(value, [](const ordered_json& message) {
           return message.is_object() && message.contains("content");
         });
}

// A text, the contents of chat messages, or any other value as JSON.
std::string ResponseText(const ordered_json& value) {
  if (!IsMessages(value)) return Text(value);
  std::string text;
  for (const ordered_json& message : value)
    text += (text.empty() ? "" : "\n") + Text(message["content"]);
  return text;
}

std::optional<bool> Label(const ordered_json& value) {
  for (const char* yes : {"correct", "true", "True", "1"}) {
    if (value == yes) return true;
  }
  for (const char* no : {"wrong", "false", "False", "0"}) {
    if (value == no) return false;
  }
  if (value == true || value == 1) return true;
  if (value == false || value == 0) return false;
  return std::nullopt;
}

// Finds a field, or that of its plural.
FoundField FindOneOrMany(ordered_json& row, const std::string& path) {
  const FoundField one = FindField(row, path);
  return one ? one : FindField(row, path + "s");
}

Status ReadLabels(ordered_json& row, const VerifyFields& fields, VerifyRow& read) {
  const FoundField found = FindOneOrMany(row, fields.label);
  if (!found || found.value().is_null()) return OkStatus();
  const bool list = found.value().is_array();
  const ordered_json labels = list ? found.value() : ordered_json::array({found.value()});
  if (list != read.is_group || labels.size() != read.responses.size()) {
    return InvalidArgument(
        fmt::format("{} labels for {} responses", labels.size(), read.responses.size()));
  }
  for (const ordered_json& value : labels) {
    const std::optional<bool> label = Label(value);
    if (!label) {
      return InvalidArgument("label " + value.dump() +
                             "; expected true, false, 1, 0, \"correct\" or \"wrong\"");
    }
    read.labels.push_back(*label);
  }
  return OkStatus();
}

Status ReadResponses(ordered_json& row, const VerifyFields& fields, VerifyRow& read) {
  const FoundField found = FindOneOrMany(row, fields.response);
  if (!found) {
    return InvalidArgument(DescribeMissing(row, fields.response) +
                           "; --response-field names the field of the response");
  }
  const ordered_json& value = found.value();
  read.is_group = value.is_array() && !IsMessages(value);
  if (!read.is_group && found.name.ends_with('s') && !fields.response.ends_with('s'))
    return InvalidArgument("'" + fields.response + "s' is not a list");
  if (!read.is_group) {
    read.responses.push_back(ResponseText(value));
  } else {
    for (const ordered_json& response : value) read.responses.push_back(ResponseText(response));
  }
  return OkStatus();
}

Status ReadAnswer(ordered_json& row, const VerifyFields& fields, VerifyRow& read) {
  if (fields.answer.empty()) return OkStatus();
  const FoundField found = FindField(row, fields.answer);
  if (!found) {
    return InvalidArgument(DescribeMissing(row, fields.answer) +
                           "; --answer-field names the field of the answer");
  }
  read.answer = Text(found.value());
  return OkStatus();
}

}  // namespace

Result<VerifyRow> ReadVerifyRow(JsonRow row, const VerifyFields& fields) {
  ordered_json& object = row.fields;
  VerifyRow read;
  const FoundField id = FindField(object, fields.id);
  read.json_id = id ? id.value() : ordered_json(row.line);
  read.id = IdText(read.json_id);
  const FoundField source = FindField(object, fields.source);
  read.source = source && !source.value().is_null() ? Text(source.value()) : kDefaultSource;
  BUTTRESS_RETURN_IF_ERROR(ReadAnswer(object, fields, read));
  BUTTRESS_RETURN_IF_ERROR(ReadResponses(object, fields, read));
  BUTTRESS_RETURN_IF_ERROR(ReadLabels(object, fields, read));
  if (const FoundField prompt = FindField(object, fields.prompt)) {
    ordered_json value = std::move(prompt.value());
    read.prompt = Text(value);
    prompt.object->erase(prompt.name);
    object["prompt"] = std::move(value);
  }
  read.json = object.dump();
  return read;
}

}  // namespace buttress
