// Methods of Python's str, dict and list.
#include <algorithm>
#include <iterator>
#include <string_view>

#include "lib/jinja/builtins.h"
#include "lib/jinja/print.h"
#include "lib/jinja/text.h"

namespace buttress {
namespace {

using Method = Result<JinjaValue> (*)(const JinjaValue& self, const JinjaArguments& arguments);

Result<JinjaValue> TextOf(Result<std::string> text) {
  if (!text.ok()) return text.status();
  return JinjaValue::Text(*std::move(text));
}

template <StripSide kSide>
Result<JinjaValue> Strip(const JinjaValue& self, const JinjaArguments& arguments) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto bound, BindJinjaArguments(arguments, {"chars"}));
  BUTTRESS_ASSIGN_OR_RETURN(const auto characters, TextArgument(bound[0], "chars"));
  return JinjaValue::Text(std::string(StripText(self.text(), characters, kSide)));
}

Result<JinjaValue> Split(const JinjaValue& self, const JinjaArguments& arguments) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto bound, BindJinjaArguments(arguments, {"sep", "maxsplit"}));
  BUTTRESS_ASSIGN_OR_RETURN(const auto separator, TextArgument(bound[0], "sep"));
  BUTTRESS_ASSIGN_OR_RETURN(const std::int64_t max_splits,
                            IntegerArgument(bound[1], "maxsplit", -1));
  if (separator.has_value() && separator->empty()) {
    return InvalidArgument("split with an empty separator");
  }
  std::vector<JinjaValue> parts;
  for (std::string& part : SplitText(self.text(), separator, max_splits)) {
    parts.push_back(JinjaValue::Text(std::move(part)));
  }
  return JinjaValue::List(std::move(parts));
}

Result<JinjaValue> SplitLines(const JinjaValue& self, const JinjaArguments& arguments) {
  BUTTRESS_RETURN_IF_ERROR(ExpectNoArguments(arguments));
  std::vector<JinjaValue> lines;
  for (std::string& line : SplitTextLines(self.text())) {
    lines.push_back(JinjaValue::Text(std::move(line)));
  }
  return JinjaValue::List(std::move(lines));
}

// startswith and endswith accept one text, or a tuple of which any item may match.
template <bool (std::string_view::*kFits)(std::string_view) const noexcept>
Result<JinjaValue> HasAffix(const JinjaValue& self, const JinjaArguments& arguments) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto bound, BindJinjaArguments(arguments, {"affix"}));
  if (!bound[0].has_value()) return InvalidArgument("a text is expected");
  const std::vector<JinjaValue> affixes =
      bound[0]->TypeName() == "tuple" ? bound[0]->items() : std::vector{*bound[0]};
  bool fits = false;
  for (const JinjaValue& affix : affixes) {
    if (!affix.is_text()) {
      return InvalidArgument("a text is expected, not '" + std::string(affix.TypeName()) + "'");
    }
    fits = fits || (std::string_view(self.text()).*kFits)(affix.text());
  }
  return JinjaValue(fits);
}

Result<JinjaValue> ReplaceIn(const JinjaValue& self, const JinjaArguments& arguments) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto bound,
                            BindJinjaArguments(arguments, {"old", "new", "count"}));
  BUTTRESS_ASSIGN_OR_RETURN(const auto from, TextArgument(bound[0], "old"));
  BUTTRESS_ASSIGN_OR_RETURN(const auto to, TextArgument(bound[1], "new"));
  BUTTRESS_ASSIGN_OR_RETURN(const std::int64_t count, IntegerArgument(bound[2], "count", -1));
  if (!from.has_value() || !to.has_value()) return InvalidArgument("replace needs two texts");
  return TextOf(ReplaceText(self.text(), *from, *to, count));
}

template <Result<std::string> (*kMap)(std::string_view)>
Result<JinjaValue> MapSelf(const JinjaValue& self, const JinjaArguments& arguments) {
  BUTTRESS_RETURN_IF_ERROR(ExpectNoArguments(arguments));
  return TextOf(kMap(self.text()));
}

Result<JinjaValue> JoinItems(const JinjaValue& self, const JinjaArguments& arguments) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto bound, BindJinjaArguments(arguments, {"iterable"}));
  if (!bound[0].has_value()) return InvalidArgument("join needs a list");
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<JinjaValue> items, JinjaIterate(*bound[0]));
  std::string out;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is_text()) {
      return InvalidArgument("join needs texts, not '" + std::string(items[i].TypeName()) + "'");
    }
    if (i > 0) out += self.text();
    out += items[i].text();
    if (out.size() > kJinjaTextBytesMax) return ResourceExhausted("join makes too long a text");
  }
  return JinjaValue::Text(std::move(out));
}

Result<JinjaValue> Get(const JinjaValue& self, const JinjaArguments& arguments) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto bound, BindJinjaArguments(arguments, {"key", "default"}));
  if (!bound[0].has_value()) return InvalidArgument("get needs a key");
  const JinjaValue* found =
      bound[0]->is_text() ? self.As<std::shared_ptr<const JinjaDict>>()->Find(bound[0]->text())
                          : nullptr;
  return found != nullptr ? *found : bound[1].value_or(JinjaValue());
}

Result<JinjaValue> DictItems(const JinjaValue& self, const JinjaArguments& arguments) {
  BUTTRESS_RETURN_IF_ERROR(ExpectNoArguments(arguments));
  std::vector<JinjaValue> items;
  for (const auto& [key, value] : self.entries()) {
    items.push_back(JinjaValue::Tuple({JinjaValue::Text(key), value}));
  }
  return JinjaValue::List(std::move(items));
}

Result<JinjaValue> Keys(const JinjaValue& self, const JinjaArguments& arguments) {
  BUTTRESS_RETURN_IF_ERROR(ExpectNoArguments(arguments));
  BUTTRESS_ASSIGN_OR_RETURN(std::vector<JinjaValue> keys, JinjaIterate(self));
  return JinjaValue::List(std::move(keys));
}

Result<JinjaValue> Values(const JinjaValue& self, const JinjaArguments& arguments) {
  BUTTRESS_RETURN_IF_ERROR(ExpectNoArguments(arguments));
  std::vector<JinjaValue> values;
  for (const auto& entry : self.entries()) values.push_back(entry.second);
  return JinjaValue::List(std::move(values));
}

struct NamedMethod {
  std::string_view name;
  Method method;
};

constexpr NamedMethod kTextMethods[] = {
    {"strip", Strip<StripSide::kBoth>},
    {"lstrip", Strip<StripSide::kLeft>},
    {"rstrip", Strip<StripSide::kRight>},
    {"split", Split},
    {"splitlines", SplitLines},
    {"startswith", HasAffix<&std::string_view::starts_with>},
    {"endswith", HasAffix<&std::string_view::ends_with>},
    {"replace", ReplaceIn},
    {"upper", MapSelf<UpperText>},
    {"lower", MapSelf<LowerText>},
    {"title", MapSelf<TitleText>},
    {"capitalize", MapSelf<CapitalizeText>},
    {"join", JoinItems},
};

constexpr NamedMethod kDictMethods[] = {
    {"get", Get}, {"items", DictItems}, {"keys", Keys}, {"values", Values}};

Method FindMethod(const JinjaValue& value, std::string_view name) {
  const auto find = [&](const auto& methods) -> Method {
    const auto* const it = std::find_if(std::begin(methods), std::end(methods),
                                        [&](const NamedMethod& m) { return m.name == name; });
    return it == std::end(methods) ? nullptr : it->method;
  };
  if (value.is_text()) return find(kTextMethods);
  return value.is_dict() ? find(kDictMethods) : nullptr;
}

}  // namespace

bool HasJinjaMethod(const JinjaValue& value, std::string_view name) {
  return FindMethod(value, name) != nullptr;
}

Result<JinjaValue> CallJinjaMethod(const JinjaMethod& method, const JinjaArguments& arguments) {
  Result<JinjaValue> result = FindMethod(method.self, method.name)(method.self, arguments);
  if (!result.ok()) return result.status().Annotate(method.name);
  return result;
}

}  // namespace buttress
