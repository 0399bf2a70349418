#include "lib/policy/config_reader.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace buttress {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxDimension = std::int64_t{1} << 24;

bool IsPositive(const json& field) {
  return field.is_number() && std::isfinite(field.get<double>()) && field.get<double>() > 0;
}

}  // namespace

ConfigReader::ConfigReader(const json& object, std::string path)
    : object_(object), path_(std::move(path)) {}

bool ConfigReader::Has(std::string_view name) {
  read_.emplace(name);
  return object_.contains(name);
}

const json* ConfigReader::Find(std::string_view name) {
  read_.emplace(name);
  const auto it = object_.find(name);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

std::int64_t ConfigReader::Dimension(std::string_view name) {
  const json* field = Find(name);
  if (field == nullptr) return Fail(name, "is missing", "an integer above 0");
  if (!field->is_number_integer() || field->get<std::int64_t>() <= 0 ||
      field->get<std::int64_t>() > kMaxDimension) {
    return Fail(name, "= " + field->dump(),
                "an integer above 0 and at most " + std::to_string(kMaxDimension));
  }
  return field->get<std::int64_t>();
}

std::int64_t ConfigReader::Dimension(std::string_view name, std::int64_t fallback) {
  return Find(name) == nullptr ? fallback : Dimension(name);
}

double ConfigReader::PositiveNumber(std::string_view name, double fallback) {
  const json* field = Find(name);
  if (field == nullptr) return fallback;
  if (IsPositive(*field)) return field->get<double>();
  return static_cast<double>(Fail(name, "= " + field->dump(), "a number above 0"));
}

double ConfigReader::NumberOrNull(std::string_view name, double fallback) {
  return Has(name) ? PositiveNumber(name, 0) : fallback;
}

bool ConfigReader::Flag(std::string_view name, bool fallback) {
  const json* field = Find(name);
  if (field == nullptr) return fallback;
  if (field->is_boolean()) return field->get<bool>();
  Fail(name, "= " + field->dump(), "true or false");
  return fallback;
}

std::string ConfigReader::Text(std::string_view name, std::string_view fallback) {
  const json* field = Find(name);
  if (field == nullptr) return std::string(fallback);
  if (field->is_string()) return field->get<std::string>();
  Fail(name, "= " + field->dump(), "a string");
  return std::string(fallback);
}

void ConfigReader::TokenIds(std::string_view name, std::vector<std::int32_t>& ids) {
  const json* field = Find(name);
  if (field == nullptr) return;
  const json list = field->is_array() ? *field : json::array({*field});
  for (const json& id : list) {
    if (!id.is_number_integer() || id.get<std::int64_t>() < 0 ||
        id.get<std::int64_t>() > kMaxDimension) {
      Fail(name, "= " + field->dump(), "a token id or a list of them");
      return;
    }
    const auto value = id.get<std::int32_t>();
    if (std::find(ids.begin(), ids.end(), value) == ids.end()) ids.push_back(value);
  }
}

void ConfigReader::Require(std::string_view name, const json& only) {
  const json* field = Find(name);
  if (field != nullptr && *field != only) Refuse(name, "not supported; expected " + only.dump());
}

void ConfigReader::Refuse(std::string_view name, std::string_view meaning) {
  if (!status_.ok()) return;
  const json* field = Find(name);
  status_ =
      InvalidArgument(path_ + ": " + std::string(name) + " = " +
                      (field == nullptr ? "null" : field->dump()) + ": " + std::string(meaning));
}

std::int64_t ConfigReader::Fail(std::string_view name, const std::string& what,
                                const std::string& expected) {
  if (status_.ok())
    status_ = DataLoss(path_ + ": " + std::string(name) + " " + what + "; expected " + expected);
  return 1;
}

void ConfigReader::Adopt(const ConfigReader& inner) {
  if (status_.ok()) status_ = inner.status_;
}

void ConfigReader::RefuseUnread(const std::set<std::string_view>& harmless,
                                std::string_view owner) {
  for (const auto& [name, value] : object_.items()) {
    if (value.is_null() || read_.count(name) > 0 || harmless.count(name) > 0) continue;
    Refuse(name, "not a known field of " + std::string(owner) +
                     "; remove it if it does not change what the model computes");
  }
}

}  // namespace buttress
