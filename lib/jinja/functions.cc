// Filters, and the methods of Python's str and dict.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>

#include "lib/base/report/check.h"
#include "lib/jinja/builtins.h"
#include "lib/jinja/print.h"
#include "lib/jinja/text.h"

namespace buttress {
namespace {

using Bound = std::vector<std::optional<JinjaValue>>;

// The arguments of a call: as given, and by the parameters of the function.
struct Call {
  const JinjaArguments& given;
  Bound bound;
};

// `self` is the value that is filtered, or the object of a method.
using Function = Result<JinjaValue> (*)(const JinjaValue& self, const Call& call);

constexpr std::int64_t kIndentMax = 1000;

Status TextExpected(const JinjaValue& value) {
  return InvalidArgument(fmt::format("a text is expected, not '{}'", value.TypeName()));
}

Status TooLong(std::string_view function) {
  return ResourceExhausted(fmt::format("{} makes too long a text", function));
}

Result<JinjaValue> TextOf(Result<std::string> text) {
  if (!text.ok()) return text.status();
  return JinjaValue::Text(*std::move(text));
}

JinjaValue ListOf(std::vector<std::string> texts) {
  std::vector<JinjaValue> items;
  for (std::string& text : texts) items.push_back(JinjaValue::Text(std::move(text)));
  return JinjaValue::List(std::move(items));
}

Result<std::string> IndentOf(const std::optional<JinjaValue>& width, std::int64_t absent) {
  if (width.has_value() && width->is_text()) return width->text();
  BUTTRESS_ASSIGN_OR_RETURN(const std::int64_t spaces, IntegerArgument(width, "indent", absent));
  if (spaces > kIndentMax) {
    return InvalidArgument("an indent of more than " + std::to_string(kIndentMax));
  }
  return std::string(static_cast<std::size_t>(std::max<std::int64_t>(spaces, 0)), ' ');
}

Result<JinjaValue> ToJson(const JinjaValue& self, const Call& call) {
  const std::optional<JinjaValue>& indent = call.bound[1];
  const std::optional<JinjaValue>& separators = call.bound[2];
  JinjaJsonStyle style;
  style.ensure_ascii = TruthArgument(call.bound[0], false);
  style.sort_keys = TruthArgument(call.bound[3], false);
  if (indent.has_value() && !indent->is_none()) {
    style.multiline = true;
    style.item_separator = ",";
    BUTTRESS_ASSIGN_OR_RETURN(style.indent, IndentOf(indent, 0));
  }
  if (separators.has_value() && !separators->is_none()) {
    if (!separators->is_list() || separators->items().size() != 2 ||
        !separators->items()[0].is_text() || !separators->items()[1].is_text()) {
      return InvalidArgument("argument 'separators' is not two texts");
    }
    style.item_separator = separators->items()[0].text();
    style.key_separator = separators->items()[1].text();
  }
  return TextOf(JinjaToJson(self, style));
}

template <StripSide kSide>
Result<JinjaValue> Strip(const JinjaValue& self, const Call& call) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto characters, TextArgument(call.bound[0], "chars"));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, JinjaToText(self));
  return JinjaValue::Text(std::string(StripText(text, characters, kSide)));
}

Result<JinjaValue> Length(const JinjaValue& self, const Call& /*call*/) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::int64_t length, JinjaLength(self));
  return JinjaValue(length);
}

template <Result<std::string> (*kMap)(std::string_view)>
Result<JinjaValue> MapText(const JinjaValue& self, const Call& /*call*/) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, JinjaToText(self));
  return TextOf(kMap(text));
}

Result<JinjaValue> String(const JinjaValue& self, const Call& /*call*/) {
  if (self.is_safe_text()) return self;
  return TextOf(JinjaToText(self));
}

Result<JinjaValue> Default(const JinjaValue& self, const Call& call) {
  const bool replace =
      self.is_undefined() || (TruthArgument(call.bound[1], false) && !self.Truthy());
  return replace ? call.bound[0].value_or(JinjaValue::Text("")) : self;
}

// Returns the value at a dotted path, or `value` itself if there is no path.
Result<JinjaValue> FollowPath(JinjaValue value, const std::optional<std::string>& path) {
  if (!path.has_value()) return value;
  for (const std::string& part : SplitText(*path, ".", -1)) {
    std::int64_t index = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool is_index = error == std::errc() && end == part.data() + part.size();
    BUTTRESS_ASSIGN_OR_RETURN(
        value, JinjaItem(value, is_index ? JinjaValue(index) : JinjaValue::Text(part)));
  }
  return value;
}

Result<JinjaValue> Join(const JinjaValue& self, const Call& call) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::string separator,
                            JinjaToText(call.bound[0].value_or(JinjaValue::Text(""))));
  BUTTRESS_ASSIGN_OR_RETURN(const auto path, TextArgument(call.bound[1], "attribute"));
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<JinjaValue> items, JinjaIterate(self));
  std::string out;
  for (std::size_t i = 0; i < items.size(); ++i) {
    BUTTRESS_ASSIGN_OR_RETURN(const JinjaValue item, FollowPath(items[i], path));
    BUTTRESS_ASSIGN_OR_RETURN(const std::string text, JinjaToText(item));
    if (i > 0) out += separator;
    out += text;
    if (out.size() > kJinjaTextBytesMax) return TooLong("join");
  }
  return JinjaValue::Text(std::move(out));
}

// The method: `self` is the separator, and all items are texts.
Result<JinjaValue> JoinItems(const JinjaValue& self, const Call& call) {
  if (!call.bound[0].has_value()) return InvalidArgument("join needs a list");
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<JinjaValue> items, JinjaIterate(*call.bound[0]));
  const auto other = std::ranges::find_if_not(items, &JinjaValue::is_text);
  if (other != items.end())
    return InvalidArgument(fmt::format("join needs texts, not '{}'", other->TypeName()));
  return Join(*call.bound[0], {call.given, {self, std::nullopt}});
}

template <bool kFirst>
Result<JinjaValue> AtEnd(const JinjaValue& self, const Call& /*call*/) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<JinjaValue> items, JinjaIterate(self));
  if (!items.empty()) return kFirst ? items.front() : items.back();
  return JinjaValue::Undefined(kFirst ? "there is no first item" : "there is no last item");
}

Result<JinjaValue> Replace(const JinjaValue& self, const Call& call) {
  const auto& from = call.bound[0];
  const auto& to = call.bound[1];
  if (!from.has_value() || !to.has_value()) return InvalidArgument("two texts are expected");
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, JinjaToText(self));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string from_text, JinjaToText(*from));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string to_text, JinjaToText(*to));
  BUTTRESS_ASSIGN_OR_RETURN(const std::int64_t count, IntegerArgument(call.bound[2], "count", -1));
  return TextOf(ReplaceText(text, from_text, to_text, count));
}

// The method, which takes texts alone.
Result<JinjaValue> ReplaceIn(const JinjaValue& self, const Call& call) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto from, TextArgument(call.bound[0], "old"));
  BUTTRESS_ASSIGN_OR_RETURN(const auto to, TextArgument(call.bound[1], "new"));
  if (!from.has_value() || !to.has_value()) return InvalidArgument("replace needs two texts");
  return Replace(self, call);
}

Result<JinjaValue> Items(const JinjaValue& self, const Call& /*call*/) {
  if (self.is_undefined()) return JinjaValue::List({});
  if (!self.is_dict()) {
    return InvalidArgument(fmt::format("a mapping is expected, not '{}'", self.TypeName()));
  }
  std::vector<JinjaValue> items;
  for (const auto& [key, value] : self.entries()) {
    items.push_back(JinjaValue::Tuple({JinjaValue::Text(key), value}));
  }
  return JinjaValue::List(std::move(items));
}

Result<JinjaValue> Values(const JinjaValue& self, const Call& /*call*/) {
  std::vector<JinjaValue> values;
  for (const auto& entry : self.entries()) values.push_back(entry.second);
  return JinjaValue::List(std::move(values));
}

Result<JinjaValue> Get(const JinjaValue& self, const Call& call) {
  const auto& key = call.bound[0];
  if (!key.has_value()) return InvalidArgument("get needs a key");
  const JinjaValue* found = key->is_text() ? FindEntry(self.entries(), key->text()) : nullptr;
  return found != nullptr ? *found : call.bound[1].value_or(JinjaValue());
}

// The filter `list`, and the keys of a dict.
Result<JinjaValue> List(const JinjaValue& self, const Call& /*call*/) {
  BUTTRESS_ASSIGN_OR_RETURN(std::vector<JinjaValue> items, JinjaIterate(self));
  return JinjaValue::List(std::move(items));
}

Result<JinjaValue> Reverse(const JinjaValue& self, const Call& /*call*/) {
  if (self.is_text()) return JinjaSlice(self, {.begin = {}, .end = {}, .step = -1});
  BUTTRESS_ASSIGN_OR_RETURN(std::vector<JinjaValue> items, JinjaIterate(self));
  std::ranges::reverse(items);
  return JinjaValue::List(std::move(items));
}

// map(attribute="a.b", default=x), or map("filter", arguments...).
Result<JinjaValue> Map(const JinjaValue& self, const Call& call) {
  const std::vector<JinjaValue>& given = call.given.positional;
  std::optional<std::string> path;
  std::optional<JinjaValue> absent;
  JinjaArguments rest;
  if (given.empty()) {
    BUTTRESS_ASSIGN_OR_RETURN(const Bound bound,
                              BindJinjaArguments(call.given, {"attribute", "default"}));
    BUTTRESS_ASSIGN_OR_RETURN(path, TextArgument(bound[0], "attribute"));
    if (!path.has_value()) return InvalidArgument("an attribute or a filter is expected");
    absent = bound[1];
  } else if (!given[0].is_text() || !IsJinjaFilter(given[0].text())) {
    return InvalidArgument("its first argument is not a supported filter");
  } else {
    rest = {{given.begin() + 1, given.end()}, call.given.named};
  }
  BUTTRESS_ASSIGN_OR_RETURN(std::vector<JinjaValue> items, JinjaIterate(self));
  for (JinjaValue& item : items) {
    BUTTRESS_ASSIGN_OR_RETURN(
        item, path ? FollowPath(item, path) : ApplyJinjaFilter(given[0].text(), item, rest));
    if (item.is_undefined() && absent.has_value()) item = *absent;
  }
  return JinjaValue::List(std::move(items));
}

// select(test, arguments...) and selectattr(attribute, test, arguments...). Without a test, items
// are selected by their truth.
template <bool kByAttribute, bool kKeeps>
Result<JinjaValue> Select(const JinjaValue& self, const Call& call) {
  constexpr std::size_t kTestAt = kByAttribute ? 1 : 0;
  const std::vector<JinjaValue>& given = call.given.positional;
  std::optional<std::string> path;
  if (kByAttribute) {
    if (given.empty()) return InvalidArgument("an attribute is expected");
    BUTTRESS_ASSIGN_OR_RETURN(path, TextArgument(given[0], "attribute"));
  }
  std::string test;
  JinjaArguments rest{{}, call.given.named};
  if (given.size() > kTestAt) {
    const JinjaValue& name = given[kTestAt];
    if (!name.is_text() || !IsJinjaTest(name.text())) {
      return InvalidArgument("its test is not a supported one");
    }
    test = name.text();
    rest.positional.assign(given.begin() + kTestAt + 1, given.end());
  }
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<JinjaValue> items, JinjaIterate(self));
  std::vector<JinjaValue> out;
  for (const JinjaValue& item : items) {
    BUTTRESS_ASSIGN_OR_RETURN(const JinjaValue tested, FollowPath(item, path));
    bool holds = tested.Truthy();
    if (!test.empty()) {
      BUTTRESS_ASSIGN_OR_RETURN(holds, ApplyJinjaTest(test, tested, rest));
    }
    if (holds == kKeeps) out.push_back(item);
  }
  return JinjaValue::List(std::move(out));
}

Result<JinjaValue> Indent(const JinjaValue& self, const Call& call) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::string indent, IndentOf(call.bound[0], 4));
  if (!self.is_text()) return TextExpected(self);
  const bool blank = TruthArgument(call.bound[2], false);
  // Jinja appends a line end before it splits the text, so that a final line end is kept.
  const std::vector<std::string> lines = SplitTextLines(self.text() + "\n");
  std::string out = TruthArgument(call.bound[1], false) ? indent : "";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += '\n';
    if (i > 0 && (blank || !lines[i].empty())) out += indent;
    out += lines[i];
    if (out.size() > kJinjaTextBytesMax) return TooLong("indent");
  }
  return JinjaValue::Text(std::move(out));
}

Result<JinjaValue> Split(const JinjaValue& self, const Call& call) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto separator, TextArgument(call.bound[0], "sep"));
  BUTTRESS_ASSIGN_OR_RETURN(const std::int64_t max_splits,
                            IntegerArgument(call.bound[1], "maxsplit", -1));
  if (separator.has_value() && separator->empty()) {
    return InvalidArgument("split with an empty separator");
  }
  return ListOf(SplitText(self.text(), separator, max_splits));
}

Result<JinjaValue> SplitLines(const JinjaValue& self, const Call& /*call*/) {
  return ListOf(SplitTextLines(self.text()));
}

// startswith and endswith accept one text, or a tuple of which any item may match.
template <bool (std::string_view::*kFits)(std::string_view) const noexcept>
Result<JinjaValue> HasAffix(const JinjaValue& self, const Call& call) {
  if (!call.bound[0].has_value()) return InvalidArgument("a text is expected");
  const std::vector<JinjaValue> affixes =
      call.bound[0]->TypeName() == "tuple" ? call.bound[0]->items() : std::vector{*call.bound[0]};
  bool fits = false;
  for (const JinjaValue& affix : affixes) {
    if (!affix.is_text()) return TextExpected(affix);
    fits = fits || (std::string_view(self.text()).*kFits)(affix.text());
  }
  return JinjaValue(fits);
}

Result<JinjaValue> Safe(const JinjaValue& self, const Call& /*call*/) {
  BUTTRESS_ASSIGN_OR_RETURN(std::string text, JinjaToText(self));
  return JinjaValue::SafeText(std::move(text));
}

// What is the same of a text that `safe` returned as of any other.
bool TakesSafeText(std::string_view function) {
  constexpr std::string_view kNames[] = {"count", "d", "default", "length", "safe", "string"};
  return std::ranges::find(kNames, function) != std::end(kNames);
}

// The one parameter of functions that look at the arguments as given.
constexpr std::string_view kAsGiven = "...";

struct NamedFunction {
  std::string_view name;
  Function function;
  std::array<std::string_view, 4> parameters = {};  // empty behind the last
};

constexpr NamedFunction kFilters[] = {
    {"capitalize", MapText<CapitalizeText>},
    {"count", Length},
    {"d", Default, {"default_value", "boolean"}},
    {"default", Default, {"default_value", "boolean"}},
    {"first", AtEnd<true>},
    {"indent", Indent, {"width", "first", "blank"}},
    {"items", Items},
    {"join", Join, {"d", "attribute"}},
    {"last", AtEnd<false>},
    {"length", Length},
    {"list", List},
    {"lower", MapText<LowerText>},
    {"map", Map, {kAsGiven}},
    {"reject", Select<false, false>, {kAsGiven}},
    {"rejectattr", Select<true, false>, {kAsGiven}},
    {"replace", Replace, {"old", "new", "count"}},
    {"reverse", Reverse},
    {"safe", Safe},
    {"select", Select<false, true>, {kAsGiven}},
    {"selectattr", Select<true, true>, {kAsGiven}},
    {"string", String},
    {"tojson", ToJson, {"ensure_ascii", "indent", "separators", "sort_keys"}},
    {"trim", Strip<StripSide::kBoth>, {"chars"}},
    {"upper", MapText<UpperText>},
};

constexpr NamedFunction kTextMethods[] = {
    {"strip", Strip<StripSide::kBoth>, {"chars"}},
    {"lstrip", Strip<StripSide::kLeft>, {"chars"}},
    {"rstrip", Strip<StripSide::kRight>, {"chars"}},
    {"split", Split, {"sep", "maxsplit"}},
    {"splitlines", SplitLines},
    {"startswith", HasAffix<&std::string_view::starts_with>, {"affix"}},
    {"endswith", HasAffix<&std::string_view::ends_with>, {"affix"}},
    {"replace", ReplaceIn, {"old", "new", "count"}},
    {"upper", MapText<UpperText>},
    {"lower", MapText<LowerText>},
    {"title", MapText<TitleText>},
    {"capitalize", MapText<CapitalizeText>},
    {"join", JoinItems, {"iterable"}},
};

constexpr NamedFunction kDictMethods[] = {
    {"get", Get, {"key", "default"}}, {"items", Items}, {"keys", List}, {"values", Values}};

template <class Functions>
const NamedFunction* FindFunction(const Functions& functions, std::string_view name) {
  const auto* const it = std::ranges::find(functions, name, &NamedFunction::name);
  return it == std::end(functions) ? nullptr : it;
}

const NamedFunction* FindMethod(const JinjaValue& value, std::string_view name) {
  if (value.is_text()) return FindFunction(kTextMethods, name);
  return value.is_dict() ? FindFunction(kDictMethods, name) : nullptr;
}

Result<JinjaValue> Apply(const NamedFunction* function, const JinjaValue& self,
                         const JinjaArguments& arguments, std::string_view context) {
  BUTTRESS_CHECK(function != nullptr, "the caller has found it by its name");
  if (self.is_safe_text() && !TakesSafeText(function->name)) {
    return InvalidArgument(
        fmt::format("{} of a text that filter 'safe' returned is not supported", context));
  }
  std::vector<std::string_view> parameters;
  for (const std::string_view parameter : function->parameters) {
    if (!parameter.empty()) parameters.push_back(parameter);
  }
  Result<Bound> bound =
      function->parameters[0] == kAsGiven ? Bound() : BindJinjaArguments(arguments, parameters);
  if (!bound.ok()) return bound.status().Annotate(context);
  Result<JinjaValue> result = function->function(self, {arguments, *std::move(bound)});
  if (!result.ok()) return result.status().Annotate(context);
  return result;
}

}  // namespace

bool IsJinjaFilter(std::string_view name) { return FindFunction(kFilters, name) != nullptr; }

Result<JinjaValue> ApplyJinjaFilter(std::string_view name, const JinjaValue& value,
                                    const JinjaArguments& arguments) {
  return Apply(FindFunction(kFilters, name), value, arguments, fmt::format("filter '{}'", name));
}

bool HasJinjaMethod(const JinjaValue& value, std::string_view name) {
  return FindMethod(value, name) != nullptr;
}

Result<JinjaValue> CallJinjaMethod(const JinjaMethod& method, const JinjaArguments& arguments) {
  return Apply(FindMethod(method.self, method.name), method.self, arguments, method.name);
}

}  // namespace buttress
