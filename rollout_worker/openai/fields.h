// Fields of JSON bodies: each is read with its name, which an error begins with. All are pure.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"

namespace buttress {

// The greatest value of a ReadWholeField.
inline constexpr auto kMaxWhole = std::numeric_limits<std::int32_t>::max();

// Parses a body that is an object. kInvalidArgument otherwise.
Result<nlohmann::ordered_json> ParseObject(std::string_view body);

// kInvalidArgument: "`name` = ...; expected `expected`".
Status WrongField(const std::string& name, const nlohmann::ordered_json& value,
                  std::string_view expected);

// Returns a member of an object; null if it is missing or `json` is none.
nlohmann::ordered_json MemberOf(const nlohmann::ordered_json& json, const char* name);

// Read a value of the type of `out`, or in [least, most]. WrongField otherwise.
Status ReadField(const std::string& name, const nlohmann::ordered_json& value, bool& out);
Status ReadField(const std::string& name, const nlohmann::ordered_json& value, std::string& out);
Status ReadNumberField(const std::string& name, const nlohmann::ordered_json& value, double least,
                       double most, double& out);
Status ReadWholeField(const std::string& name, const nlohmann::ordered_json& value,
                      std::int32_t least, std::int32_t most, std::int32_t& out);
Status ReadIdsField(const std::string& name, const nlohmann::ordered_json& value,
                    std::vector<std::int32_t>& out);

}  // namespace buttress
