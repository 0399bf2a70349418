// What `value.name`, `value[key]`, `value[a:b:c]` and calls of methods give.
#pragma once

#include <optional>
#include <string>

#include "lib/base/status.h"
#include "lib/jinja/arguments.h"
#include "lib/jinja/value.h"

namespace buttress {

// A method, then an item, as Jinja looks; undefined if there is neither. kInvalidArgument for an
// attribute of undefined, and for methods that change their object, which transformers' sandbox
// forbids.
Result<JinjaValue> JinjaAttribute(const JinjaValue& value, const std::string& name);

// An item, then a method.
Result<JinjaValue> JinjaItem(const JinjaValue& value, const JinjaValue& key);

struct JinjaSliceBounds {
  std::optional<std::int64_t> begin;
  std::optional<std::int64_t> end;
  std::optional<std::int64_t> step;
};

Result<JinjaValue> JinjaSlice(const JinjaValue& value, const JinjaSliceBounds& bounds);

// Methods of texts, dicts and lists.
bool HasJinjaMethod(const JinjaValue& value, std::string_view name);
Result<JinjaValue> CallJinjaMethod(const JinjaMethod& method, const JinjaArguments& arguments);

}  // namespace buttress
