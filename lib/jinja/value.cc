#include "lib/jinja/value.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/base/text/unicode.h"

namespace buttress {

using nlohmann::ordered_json;

namespace {

using ListPointer = std::shared_ptr<const JinjaList>;
using DictPointer = std::shared_ptr<const JinjaDict>;

JinjaValue MakeList(std::vector<JinjaValue> items, bool tuple) {
  JinjaList list{.items = std::move(items), .tuple = tuple};
  for (const JinjaValue& item : list.items) {
    list.nesting = std::max(list.nesting, item.nesting() + 1);
    list.count = std::min(list.count + item.count(), kJinjaCountMax + 1);
  }
  return JinjaValue(std::make_shared<const JinjaList>(std::move(list)));
}

bool EntriesEqual(const JinjaEntries& left, const JinjaEntries& right) {
  return left.size() == right.size() && std::ranges::all_of(left, [&](const auto& entry) {
           const JinjaValue* other = FindEntry(right, entry.first);
           return other != nullptr && JinjaEqual(entry.second, *other);
         });
}

// Compares exactly, like Python's comparison of int and float.
bool IntegerEqualsFloat(std::int64_t integer, double real) {
  return real >= -9223372036854775808.0 && real < 9223372036854775808.0 &&
         static_cast<std::int64_t>(real) == integer &&
         static_cast<double>(static_cast<std::int64_t>(real)) == real;
}

bool NumbersEqual(const JinjaValue& left, const JinjaValue& right) {
  if (left.Is<double>() && right.Is<double>()) return left.As<double>() == right.As<double>();
  if (left.Is<double>()) return IntegerEqualsFloat(right.integer(), left.As<double>());
  if (right.Is<double>()) return IntegerEqualsFloat(left.integer(), right.As<double>());
  return left.integer() == right.integer();
}

}  // namespace

JinjaValue JinjaValue::List(std::vector<JinjaValue> items) {
  return MakeList(std::move(items), /*tuple=*/false);
}

JinjaValue JinjaValue::Tuple(std::vector<JinjaValue> items) {
  return MakeList(std::move(items), /*tuple=*/true);
}

JinjaValue JinjaValue::Dict(JinjaEntries entries) {
  JinjaDict dict{.entries = std::move(entries)};
  for (const auto& entry : dict.entries) {
    dict.nesting = std::max(dict.nesting, entry.second.nesting() + 1);
    dict.count = std::min(dict.count + entry.second.count(), kJinjaCountMax + 1);
  }
  return JinjaValue(std::make_shared<const JinjaDict>(std::move(dict)));
}

Result<JinjaValue> JinjaValue::FromJson(const ordered_json& value, int nesting) {
  if (nesting > kJinjaNestingMax) {
    return InvalidArgument("the template's input is nested deeper than " +
                           std::to_string(kJinjaNestingMax) + " levels");
  }
  switch (value.type()) {
    case ordered_json::value_t::null:
      return JinjaValue();
    case ordered_json::value_t::boolean:
      return JinjaValue(value.get<bool>());
    case ordered_json::value_t::number_integer:
      return JinjaValue(value.get<std::int64_t>());
    case ordered_json::value_t::number_float:
      return JinjaValue(value.get<double>());
    case ordered_json::value_t::number_unsigned:
      if (value.get<std::uint64_t>() > INT64_MAX) {
        return InvalidArgument("the template's input contains a number above 2^63 - 1");
      }
      return JinjaValue(value.get<std::int64_t>());
    case ordered_json::value_t::string: {
      const std::string& text = value.get_ref<const std::string&>();
      if (FirstInvalidUtf8(text).has_value()) {
        return InvalidArgument("the template's input contains a text that is not UTF-8");
      }
      return Text(text);
    }
    case ordered_json::value_t::array: {
      std::vector<JinjaValue> items;
      for (const ordered_json& item : value) {
        BUTTRESS_ASSIGN_OR_RETURN(JinjaValue converted, FromJson(item, nesting + 1));
        items.push_back(std::move(converted));
      }
      return List(std::move(items));
    }
    case ordered_json::value_t::object: {
      JinjaEntries entries;
      for (const auto& [key, item] : value.items()) {
        BUTTRESS_ASSIGN_OR_RETURN(JinjaValue converted, FromJson(item, nesting + 1));
        entries.emplace_back(key, std::move(converted));
      }
      return Dict(std::move(entries));
    }
    case ordered_json::value_t::binary:
    case ordered_json::value_t::discarded:
      break;
  }
  return InvalidArgument("the template's input is not JSON");
}

const std::vector<JinjaValue>& JinjaValue::items() const { return As<ListPointer>()->items; }

const JinjaEntries& JinjaValue::entries() const { return As<DictPointer>()->entries; }

double JinjaValue::number() const {
  return Is<double>() ? As<double>() : static_cast<double>(integer());
}

bool JinjaValue::Truthy() const {
  if (is_none() || is_undefined()) return false;
  if (is_number()) return number() != 0;
  if (is_text()) return !text().empty();
  if (is_list()) return !items().empty();
  if (is_dict()) return !entries().empty();
  return true;
}

int JinjaValue::nesting() const {
  if (is_list()) return As<ListPointer>()->nesting;
  if (is_dict()) return As<DictPointer>()->nesting;
  if (Is<std::shared_ptr<JinjaLoop>>()) {
    return As<std::shared_ptr<JinjaLoop>>()->items.nesting() + 1;
  }
  if (Is<std::shared_ptr<const JinjaMethod>>()) {
    return As<std::shared_ptr<const JinjaMethod>>()->self.nesting() + 1;
  }
  return Is<std::shared_ptr<JinjaNamespace>>() ? kJinjaNestingMax : 0;
}

std::int64_t JinjaValue::count() const {
  if (is_list()) return As<ListPointer>()->count;
  if (is_dict()) return As<DictPointer>()->count;
  return 1;
}

std::string_view JinjaValue::TypeName() const {
  static constexpr std::string_view kNames[] = {
      "NoneType", "Undefined", "bool",        "int",    "float", "str",     "list",
      "dict",     "Namespace", "loop object", "method", "macro", "function"};
  static_assert(std::size(kNames) == std::variant_size_v<Variant>);
  if (is_list() && As<ListPointer>()->tuple) return "tuple";
  return kNames[value_.index()];
}

const JinjaValue* FindEntry(const JinjaEntries& entries, std::string_view name) {
  const auto it =
      std::ranges::find_if(entries, [&](const auto& entry) { return entry.first == name; });
  return it == entries.end() ? nullptr : &it->second;
}

void SetEntry(JinjaEntries& entries, std::string_view name, JinjaValue value) {
  const auto it =
      std::ranges::find_if(entries, [&](const auto& entry) { return entry.first == name; });
  if (it != entries.end()) {
    it->second = std::move(value);
  } else {
    entries.emplace_back(name, std::move(value));
  }
}

bool JinjaEqual(const JinjaValue& left, const JinjaValue& right) {
  if (left.is_number() && right.is_number()) return NumbersEqual(left, right);
  if (left.is_text() && right.is_text()) return left.text() == right.text();
  if (left.is_none() || left.is_undefined()) return left.TypeName() == right.TypeName();
  if (left.is_list() && right.is_list()) {
    return left.TypeName() == right.TypeName() &&
           std::ranges::equal(left.items(), right.items(), JinjaEqual);
  }
  if (left.is_dict() && right.is_dict()) return EntriesEqual(left.entries(), right.entries());
  if (left.Is<std::shared_ptr<JinjaNamespace>>() && right.Is<std::shared_ptr<JinjaNamespace>>()) {
    return left.As<std::shared_ptr<JinjaNamespace>>() ==
           right.As<std::shared_ptr<JinjaNamespace>>();
  }
  return false;
}

Result<bool> JinjaLess(const JinjaValue& left, const JinjaValue& right) {
  // The order of bytes in UTF-8 is the order of code points.
  if (left.is_text() && right.is_text()) return left.text() < right.text();
  if (left.is_number() && right.is_number()) {
    if (left.Is<double>() || right.Is<double>()) return left.number() < right.number();
    return left.integer() < right.integer();
  }
  return InvalidArgument(
      fmt::format("'{}' and '{}' have no order", left.TypeName(), right.TypeName()));
}

Result<bool> JinjaContains(const JinjaValue& container, const JinjaValue& item) {
  if (container.is_text()) {
    if (item.is_text()) return container.text().find(item.text()) != std::string::npos;
    return InvalidArgument("'in' needs a text on its left, not '" + std::string(item.TypeName()) +
                           "'");
  }
  if (container.is_dict()) {
    return item.is_text() && FindEntry(container.entries(), item.text()) != nullptr;
  }
  if (container.is_undefined()) return false;
  if (container.is_list()) {
    return std::any_of(container.items().begin(), container.items().end(),
                       [&](const JinjaValue& other) { return JinjaEqual(other, item); });
  }
  return InvalidArgument("'in' cannot look into '" + std::string(container.TypeName()) + "'");
}

Result<std::vector<JinjaValue>> JinjaIterate(const JinjaValue& value) {
  std::vector<JinjaValue> out;
  if (value.is_list()) return value.items();
  if (value.is_undefined()) return out;
  if (value.is_dict()) {
    for (const auto& entry : value.entries()) out.push_back(JinjaValue::Text(entry.first));
    return out;
  }
  if (value.is_text()) {
    const std::string_view text = value.text();
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t length = CodePointAt(text, at).length;
      out.push_back(JinjaValue::Text(std::string(text.substr(at, length))));
      at += length;
    }
    return out;
  }
  return InvalidArgument("'" + std::string(value.TypeName()) + "' cannot be iterated over");
}

Result<std::int64_t> JinjaLength(const JinjaValue& value) {
  if (value.is_list()) return static_cast<std::int64_t>(value.items().size());
  if (value.is_dict()) return static_cast<std::int64_t>(value.entries().size());
  if (value.is_undefined()) return 0;
  if (value.is_text()) {
    // Continuation bytes do not begin a character.
    return std::count_if(value.text().begin(), value.text().end(),
                         [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; });
  }
  return InvalidArgument("'" + std::string(value.TypeName()) + "' has no length");
}

}  // namespace buttress
