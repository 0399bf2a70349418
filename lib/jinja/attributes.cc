#include <fmt/core.h>

#include <algorithm>
#include <string_view>

#include "lib/jinja/builtins.h"

namespace buttress {
namespace {

Status NoAttribute(const JinjaValue& value, std::string_view name) {
  return InvalidArgument(fmt::format("'{}' has no attribute '{}'", value.TypeName(), name));
}

JinjaValue Missing(const JinjaValue& value, std::string_view name) {
  return JinjaValue::Undefined(NoAttribute(value, name).message());
}

bool ChangesItsObject(const JinjaValue& value, std::string_view name) {
  static constexpr std::string_view kOfLists[] = {"append", "clear",  "extend",  "insert",
                                                  "pop",    "remove", "reverse", "sort"};
  static constexpr std::string_view kOfDicts[] = {"clear", "pop", "popitem", "setdefault",
                                                  "update"};
  if (value.is_list()) return std::ranges::count(kOfLists, name) > 0;
  return value.is_dict() && std::ranges::count(kOfDicts, name) > 0;
}

Result<JinjaValue> LoopAttribute(const JinjaLoop& loop, std::string_view name) {
  const std::vector<JinjaValue>& items = loop.items.items();
  const auto index = static_cast<std::int64_t>(loop.index);
  const auto length = static_cast<std::int64_t>(items.size());
  if (name == "index") return JinjaValue(index + 1);
  if (name == "index0") return JinjaValue(index);
  if (name == "revindex") return JinjaValue(length - index);
  if (name == "revindex0") return JinjaValue(length - index - 1);
  if (name == "first") return JinjaValue(index == 0);
  if (name == "last") return JinjaValue(index + 1 == length);
  if (name == "length") return JinjaValue(length);
  // Recursive loops alone, which are not supported, are deeper.
  if (name == "depth") return JinjaValue(std::int64_t{1});
  if (name == "depth0") return JinjaValue(std::int64_t{0});
  if (name == "previtem") {
    return index == 0 ? JinjaValue::Undefined("there is no previous item") : items[loop.index - 1];
  }
  if (name == "nextitem") {
    return index + 1 == length ? JinjaValue::Undefined("there is no next item")
                               : items[loop.index + 1];
  }
  return InvalidArgument("loop." + std::string(name) + " is not supported");
}

// The entries of a dict or namespace; null for other values.
const JinjaEntries* EntriesOf(const JinjaValue& value) {
  if (value.is_dict()) return &value.entries();
  if (!value.Is<std::shared_ptr<JinjaNamespace>>()) return nullptr;
  return &value.As<std::shared_ptr<JinjaNamespace>>()->entries;
}

// The entry of a dict or namespace; null if there is none.
const JinjaValue* EntryOf(const JinjaValue& value, std::string_view name) {
  const JinjaEntries* entries = EntriesOf(value);
  return entries == nullptr ? nullptr : FindEntry(*entries, name);
}

Status SafePart() {
  return InvalidArgument("a part of a text that filter 'safe' returned is not supported");
}

}  // namespace

Result<JinjaValue> JinjaAttribute(const JinjaValue& value, const std::string& name) {
  if (value.is_undefined()) return InvalidArgument(*value.As<JinjaUndefined>().what);
  if (name.starts_with("_")) {
    return InvalidArgument("attribute '" + name + "' is not allowed in a template");
  }
  if (ChangesItsObject(value, name)) {
    return InvalidArgument(
        fmt::format("'{}.{}' is not allowed: transformers runs templates in an immutable sandbox",
                    value.TypeName(), name));
  }
  if (value.Is<std::shared_ptr<JinjaLoop>>()) {
    return LoopAttribute(*value.As<std::shared_ptr<JinjaLoop>>(), name);
  }
  if (HasJinjaMethod(value, name)) {
    return JinjaValue(std::make_shared<const JinjaMethod>(JinjaMethod{value, name}));
  }
  const JinjaValue* entry = EntryOf(value, name);
  return entry != nullptr ? *entry : Missing(value, name);
}

Result<JinjaValue> JinjaItem(const JinjaValue& value, const JinjaValue& key) {
  if (value.is_undefined()) return InvalidArgument(*value.As<JinjaUndefined>().what);
  if (key.is_text()) {
    const JinjaValue* entry = EntryOf(value, key.text());
    return entry != nullptr ? Result<JinjaValue>(*entry) : JinjaAttribute(value, key.text());
  }
  if (!key.is_integer() || (!value.is_list() && !value.is_text()))
    return JinjaValue::Undefined(fmt::format("'{}' has no such item", value.TypeName()));
  const std::int64_t at = key.integer();
  BUTTRESS_ASSIGN_OR_RETURN(const std::int64_t length, JinjaLength(value));
  const std::int64_t from_begin = at < 0 ? at + length : at;
  if (from_begin < 0 || from_begin >= length)
    return JinjaValue::Undefined(fmt::format("'{}' has no item {}", value.TypeName(), at));
  if (value.is_safe_text()) return SafePart();
  const auto place = static_cast<std::size_t>(from_begin);
  if (value.is_list()) return value.items()[place];
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<JinjaValue> characters, JinjaIterate(value));
  return characters[place];
}

Result<JinjaValue> JinjaSlice(const JinjaValue& value, const JinjaSliceBounds& bounds) {
  if (value.is_undefined()) return InvalidArgument(*value.As<JinjaUndefined>().what);
  if (!value.is_list() && !value.is_text()) {
    return InvalidArgument(fmt::format("'{}' cannot be sliced", value.TypeName()));
  }
  if (value.is_safe_text()) return SafePart();
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<JinjaValue> items, JinjaIterate(value));
  const auto length = static_cast<std::int64_t>(items.size());
  const std::int64_t step = std::clamp(bounds.step.value_or(1), -length - 1, length + 1);
  if (step == 0) return InvalidArgument("a slice with step 0");
  // Positions before the first and behind the last item where a bound lies outside.
  const std::int64_t lowest = step > 0 ? 0 : -1;
  const std::int64_t highest = step > 0 ? length : length - 1;
  const auto place = [&](const std::optional<std::int64_t>& bound, std::int64_t absent) {
    if (!bound.has_value()) return absent;
    return std::clamp(*bound < 0 ? *bound + length : *bound, lowest, highest);
  };
  const std::int64_t begin = place(bounds.begin, step > 0 ? lowest : highest);
  const std::int64_t end = place(bounds.end, step > 0 ? highest : lowest);
  std::vector<JinjaValue> taken;
  for (std::int64_t at = begin; step > 0 ? at < end : at > end; at += step) {
    taken.push_back(items[static_cast<std::size_t>(at)]);
  }
  if (value.is_list()) {
    return value.TypeName() == "tuple" ? JinjaValue::Tuple(std::move(taken))
                                       : JinjaValue::List(std::move(taken));
  }
  std::string text;
  for (const JinjaValue& character : taken) text += character.text();
  return JinjaValue::Text(std::move(text));
}

}  // namespace buttress
