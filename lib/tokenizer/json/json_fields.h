// Typed reads of JSON members with errors that name the member: "model.ignore_merges = 3 is not
// true or false".
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "lib/base/report/status.h"

namespace buttress {

// Return the member `name` of `object`, or `absent` if it is missing or null. `path` names `object`
// in messages and is empty for the root.
Result<bool> BoolMember(const nlohmann::json& object, std::string_view path,
                        const std::string& name, bool absent);
Result<std::string> StringMember(const nlohmann::json& object, std::string_view path,
                                 const std::string& name, const std::string& absent);

// Returns the member, or a JSON null if it is missing.
const nlohmann::json& MemberOrNull(const nlohmann::json& object, const std::string& name);

// Returns a whole number in [0, max].
Result<std::int32_t> IdOf(const nlohmann::json& value, std::string_view path, std::int32_t max);

Status ExpectObject(const nlohmann::json& value, std::string_view path);

// Refuses members other than `known`, because an unknown one may change results.
Status ExpectMembersAmong(const nlohmann::json& object, std::string_view path,
                          std::initializer_list<std::string_view> known);

// Returns "path.name", or "name" under the root.
std::string MemberPath(std::string_view path, std::string_view name);

// Returns the beginning of a value's JSON, for messages.
std::string Excerpt(const nlohmann::json& value);

}  // namespace buttress
