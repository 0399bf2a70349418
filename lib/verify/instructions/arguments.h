// Reads the arguments of an instruction, checks their types and keeps the first error.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/base/report/status.h"

namespace buttress {

class InstructionArguments {
 public:
  // REQUIRES: `kwargs` is an object and outlives this instance.
  explicit InstructionArguments(const nlohmann::json& kwargs) : kwargs_(kwargs) {}

  // Return 0, "" or {} if the argument is missing or of another type; status() is then an error.
  std::int64_t Count(const char* name);
  std::string Text(const char* name);
  std::vector<std::string> Texts(const char* name);

  // Returns whether `found` and the argument `name` satisfy the relation in the argument
  // `relation_name`.
  bool Holds(std::int64_t found, const char* name, const char* relation_name);

  const Status& status() const { return status_; }

 private:
  const nlohmann::json* Find(const char* name, const char* expected);

  const nlohmann::json& kwargs_;
  Status status_;
};

}  // namespace buttress
