// Strict reading of a Hugging Face config.json. Without torch.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"

namespace buttress {

// Reads the fields of one JSON object, keeps the first error, and knows which fields nobody read.
// After an error, fields read as values with which reading can continue. `object` must outlive it.
class ConfigReader {
 public:
  ConfigReader(const nlohmann::json& object, std::string path);

  // Returns whether the object has the field, be it null.
  bool Has(std::string_view name);

  // Returns null for a missing field and for JSON's null, as transformers does.
  const nlohmann::json* Find(std::string_view name);

  // An integer above 0. The first form requires the field.
  std::int64_t Dimension(std::string_view name);
  std::int64_t Dimension(std::string_view name, std::int64_t fallback);

  // A number above 0.
  double PositiveNumber(std::string_view name, double fallback);

  // A number above 0, or 0 for null: a missing field is `fallback`.
  double NumberOrNull(std::string_view name, double fallback);

  bool Flag(std::string_view name, bool fallback);
  std::string Text(std::string_view name, std::string_view fallback);

  // Adds the token id, or the list of them, to `ids`, without duplicates.
  void TokenIds(std::string_view name, std::vector<std::int32_t>& ids);

  // Refuses a field whose value is neither null nor `only`.
  void Require(std::string_view name, const nlohmann::json& only);

  // Records that the value of a field is not supported; `meaning` says what is, and the fix.
  void Refuse(std::string_view name, std::string_view meaning);

  // Records a malformed field. Returns 1.
  std::int64_t Fail(std::string_view name, const std::string& what, const std::string& expected);

  // Takes over the error of the reader of an object within this one.
  void Adopt(const ConfigReader& inner);

  // Refuses the fields that were not read, are not null and not among `harmless`.
  void RefuseUnread(const std::set<std::string_view>& harmless, std::string_view owner);

  const std::string& path() const { return path_; }

  const Status& status() const { return status_; }

 private:
  const nlohmann::json& object_;
  std::string path_;
  std::set<std::string, std::less<>> read_;
  Status status_;
};

}  // namespace buttress
