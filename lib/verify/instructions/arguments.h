// Arguments of an instruction, read with their types checked; the first one that is wrong is kept
// and said.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/base/status.h"

namespace buttress {

class InstructionArguments {
 public:
  // REQUIRES: `kwargs` is an object and outlives this.
  explicit InstructionArguments(const nlohmann::json& kwargs) : kwargs_(kwargs) {}

  // 0, "" or {} where the argument is missing or of another type; status() then says so.
  std::int64_t Count(const char* name);
  std::string Text(const char* name);
  std::vector<std::string> Texts(const char* name);

  // Whether `found` stands to count `name` as relation `relation_name` says.
  bool Holds(std::int64_t found, const char* name, const char* relation_name);

  const Status& status() const { return status_; }

 private:
  const nlohmann::json* Find(const char* name, const char* expected);

  const nlohmann::json& kwargs_;
  Status status_;
};

}  // namespace buttress
