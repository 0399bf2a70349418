// Fields of a row by name: "answer", or a path of names with dots, "reward_model.ground_truth".
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace buttress {

// A field: `object` holds it under `name`. `object` is null if there is none.
struct FoundField {
  nlohmann::ordered_json* object = nullptr;
  std::string name;

  explicit operator bool() const { return object != nullptr; }

  nlohmann::ordered_json& value() const { return object->at(name); }
};

// Finds the field that `path` names. A field whose name is all of `path` comes before one inside
// another. REQUIRES: `object` is an object.
FoundField FindField(nlohmann::ordered_json& object, std::string_view path);

// Says which fields there are where `path` names none: "no field 'a.c'; 'a' has b". Long lists are
// cut.
std::string DescribeMissing(nlohmann::ordered_json& object, std::string_view path);

// Says what a value is that is no text: "an object with the fields a.b and a.c", "a list of 3".
std::string DescribeValue(const nlohmann::ordered_json& value, std::string_view path);

}  // namespace buttress
