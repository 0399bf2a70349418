// The operations of templates on values: operators, filters, tests, attributes, items and methods,
// and the arguments that some of them take.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/jinja/value.h"

namespace buttress {

struct JinjaArguments {
  std::vector<JinjaValue> positional;
  std::vector<std::pair<std::string, JinjaValue>> named;
};

// Returns a value for each of `parameters`, in their order; nullopt for a parameter that the call
// leaves out. Returns kInvalidArgument for an argument without a parameter.
Result<std::vector<std::optional<JinjaValue>>> BindJinjaArguments(
    const JinjaArguments& arguments, const std::vector<std::string_view>& parameters);

Result<std::int64_t> IntegerArgument(const std::optional<JinjaValue>& value, std::string_view name,
                                     std::int64_t absent);

// Returns nullopt for an absent argument and for the value none.
Result<std::optional<std::string>> TextArgument(const std::optional<JinjaValue>& value,
                                                std::string_view name);

bool TruthArgument(const std::optional<JinjaValue>& value, bool absent);

// Applies Python's operator `name`: + - * / // % ~. Returns kInvalidArgument for types that the
// operator does not accept and for integers beyond 64 bits.
Result<JinjaValue> JinjaBinary(std::string_view name, const JinjaValue& left,
                               const JinjaValue& right);

// Applies the sign `name`: + or -.
Result<JinjaValue> JinjaSign(std::string_view name, const JinjaValue& operand);

// Applies the comparison `name`: == != < <= > >= in, not in.
Result<bool> JinjaCompare(std::string_view name, const JinjaValue& left, const JinjaValue& right);

// Filters: `value | name(arguments)`.
bool IsJinjaFilter(std::string_view name);

// REQUIRES: IsJinjaFilter(name).
Result<JinjaValue> ApplyJinjaFilter(std::string_view name, const JinjaValue& value,
                                    const JinjaArguments& arguments);

// Tests: `value is name(arguments)`.
bool IsJinjaTest(std::string_view name);

// REQUIRES: IsJinjaTest(name).
Result<bool> ApplyJinjaTest(std::string_view name, const JinjaValue& value,
                            const JinjaArguments& arguments);

// Returns `value.name`: a method if there is one, else an item, else undefined. Returns
// kInvalidArgument for an attribute of undefined and for methods that change their object, which
// transformers' sandbox forbids.
Result<JinjaValue> JinjaAttribute(const JinjaValue& value, const std::string& name);

// Returns `value[key]`: an item if there is one, else a method, else undefined.
Result<JinjaValue> JinjaItem(const JinjaValue& value, const JinjaValue& key);

struct JinjaSliceBounds {
  std::optional<std::int64_t> begin;
  std::optional<std::int64_t> end;
  std::optional<std::int64_t> step;
};

// Returns `value[begin:end:step]`.
Result<JinjaValue> JinjaSlice(const JinjaValue& value, const JinjaSliceBounds& bounds);

// Methods of texts, dicts and lists.
bool HasJinjaMethod(const JinjaValue& value, std::string_view name);
Result<JinjaValue> CallJinjaMethod(const JinjaMethod& method, const JinjaArguments& arguments);

}  // namespace buttress
