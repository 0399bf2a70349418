#include "lib/data/json_rows.h"

#include <fmt/core.h>

#include "lib/base/text/json_fault.h"
#include "lib/data/line_reader.h"
#include "lib/data/row_faults.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

constexpr int kDepthMax = 64;  // values are copied and printed recursively

Result<JsonRow> ParseRow(std::string_view text, std::int64_t line) {
  bool too_deep = false;
  const auto guard = [&too_deep](int depth, ordered_json::parse_event_t, ordered_json&) {
    too_deep = too_deep || depth > kDepthMax;
    return !too_deep;
  };
  JsonRow row;
  row.fields = ordered_json::parse(text.begin(), text.end(), guard, /*allow_exceptions=*/false);
  row.line = line;
  if (too_deep) return InvalidArgument(fmt::format("nested deeper than {}; flatten it", kDepthMax));
  if (!row.fields.is_object())
    return InvalidArgument(WhyNoJsonObject(text) + R"(; expected one a line, as {"id": 1, ...})");
  const auto id = row.fields.find("id");
  row.id = id == row.fields.end() ? ordered_json(line) : *id;
  return row;
}

Status Use(std::string_view text, std::int64_t line,
           const std::function<Status(JsonRow row)>& use) {
  BUTTRESS_ASSIGN_OR_RETURN(JsonRow row, ParseRow(text, line));
  return use(std::move(row));
}

}  // namespace

Status ForEachJsonRow(const std::string& path, const std::function<Status(JsonRow row)>& use) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::unique_ptr<LineReader> reader, LineReader::Open(path));
  RowFaults faults(reader->unit());
  std::size_t rows = 0;
  while (true) {
    std::string_view text;
    BUTTRESS_ASSIGN_OR_RETURN(const bool found, reader->Next(text));
    if (!found) break;
    if (text.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    ++rows;
    const Status status = Use(text, reader->number(), use);
    if (!status.ok()) faults.Add(reader->number(), status.message());
  }
  if (rows == 0) return InvalidArgument(path + " has no rows; expected one object a line");
  return faults.Finish(path, rows);
}

Result<std::vector<std::int32_t>> TokenIdsOf(const JsonRow& row, std::int64_t vocab_size) {
  const auto field = row.fields.find("token_ids");
  if (field == row.fields.end() || !field->is_array() || field->empty())
    return InvalidArgument("no 'token_ids'; expected a list of one or more token ids");
  std::vector<std::int32_t> ids;
  ids.reserve(field->size());
  for (const ordered_json& value : *field) {
    const std::int64_t id = value.is_number_integer() ? value.get<std::int64_t>() : -1;
    if (id < 0 || id >= vocab_size)
      return InvalidArgument(fmt::format(
          "token_ids[{}] = {} is not an id of the vocabulary; expected a whole number from 0 to {}",
          ids.size(), value.dump(), vocab_size - 1));
    ids.push_back(static_cast<std::int32_t>(id));
  }
  return ids;
}

}  // namespace buttress
