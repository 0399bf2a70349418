#include "cli/explain/dump_fields.h"

#include <fmt/core.h>

#include <cmath>

#include "lib/verify/extract.h"

namespace buttress {
namespace {

using nlohmann::json;

std::string Dumped(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// A message of a chat has a content, which may be null next to tool calls.
bool IsMessage(const json& value) {
  return value.is_object() && (value.contains("content") || value.contains("role"));
}

}  // namespace

const json* FindField(const json& row, std::string_view field) {
  if (field.empty()) return nullptr;
  const auto found = row.find(field);
  return found == row.end() || found->is_null() ? nullptr : &*found;
}

Status Unexpected(std::string_view field, const json& value, const std::string& expected) {
  return InvalidArgument(
      fmt::format("{} = {}; expected {}", field, FirstBytes(Dumped(value), 40), expected));
}

double NumberOf(const json& value) {
  return value.is_boolean() ? (value.get<bool>() ? 1.0 : 0.0) : value.get<double>();
}

Result<std::string> ReadText(const json& row, std::string_view field) {
  const json* value = FindField(row, field);
  if (value == nullptr) return std::string();
  if (value->is_string()) return value->get<std::string>();
  if (value->is_primitive()) return value->dump();
  std::string text;
  for (const json& message : *value) {
    if (!value->is_array() || !IsMessage(message))
      return Unexpected(field, *value, "a text, or a list of messages with content");
    const json* content = FindField(message, "content");
    if (content == nullptr) continue;
    text += (text.empty() ? "" : "\n") +
            (content->is_string() ? content->get<std::string>() : Dumped(*content));
  }
  return text;
}

Status ReadStep(const json& row, std::string_view field, const char* expected,
                std::optional<std::int64_t>& step) {
  const json* value = FindField(row, field);
  if (value == nullptr) return OkStatus();
  const double number = value->is_number() ? value->get<double>() : -1;
  if (!(number >= 0 && number <= 1e15) || number != std::floor(number))
    return Unexpected(field, *value, expected);
  step = static_cast<std::int64_t>(number);
  return OkStatus();
}

void Gaps::Add(const std::vector<Gap>& gaps, const std::string& where) {
  for (const Gap& gap : gaps) {
    Count& count = of_field_[gap.field];
    if (++count.rows > 1) continue;
    count.first = where;
    count.meaning = gap.meaning;
  }
}

std::vector<std::string> Gaps::Remarks() const {
  std::vector<std::string> remarks;
  for (const auto& [field, count] : of_field_) {
    remarks.push_back(
        fmt::format("{} is absent, empty, null, NaN or infinite in {}, the first {}: {}", field,
                    count.rows == 1 ? "1 row" : fmt::format("{} rows", count.rows), count.first,
                    count.meaning));
  }
  return remarks;
}

}  // namespace buttress
