#include <algorithm>
#include <charconv>
#include <iterator>

#include "lib/base/report/check.h"
#include "lib/jinja/builtins.h"
#include "lib/jinja/print.h"
#include "lib/jinja/text.h"

namespace buttress {
namespace {

using Filter = Result<JinjaValue> (*)(const JinjaValue& value, const JinjaArguments& arguments);

constexpr std::int64_t kIndentMax = 1000;

Result<std::string> IndentOf(const std::optional<JinjaValue>& width, std::int64_t absent) {
  if (width.has_value() && width->is_text()) return width->text();
  BUTTRESS_ASSIGN_OR_RETURN(const std::int64_t spaces, IntegerArgument(width, "indent", absent));
  if (spaces > kIndentMax) {
    return InvalidArgument("an indent of more than " + std::to_string(kIndentMax));
  }
  return std::string(static_cast<std::size_t>(std::max<std::int64_t>(spaces, 0)), ' ');
}

Result<JinjaValue> ToJson(const JinjaValue& value, const JinjaArguments& arguments) {
  BUTTRESS_ASSIGN_OR_RETURN(
      const auto bound,
      BindJinjaArguments(arguments, {"ensure_ascii", "indent", "separators", "sort_keys"}));
  JinjaJsonStyle style;
  style.ensure_ascii = TruthArgument(bound[0], false);
  style.sort_keys = TruthArgument(bound[3], false);
  if (bound[1].has_value() && !bound[1]->is_none()) {
    style.multiline = true;
    style.item_separator = ",";
    BUTTRESS_ASSIGN_OR_RETURN(style.indent, IndentOf(bound[1], 0));
  }
  if (bound[2].has_value() && !bound[2]->is_none()) {
    const JinjaValue& pair = *bound[2];
    if (!pair.is_list() || pair.items().size() != 2 || !pair.items()[0].is_text() ||
        !pair.items()[1].is_text()) {
      return InvalidArgument("argument 'separators' is not two texts");
    }
    style.item_separator = pair.items()[0].text();
    style.key_separator = pair.items()[1].text();
  }
  BUTTRESS_ASSIGN_OR_RETURN(std::string json, JinjaToJson(value, style));
  return JinjaValue::Text(std::move(json));
}

Result<JinjaValue> Trim(const JinjaValue& value, const JinjaArguments& arguments) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto bound, BindJinjaArguments(arguments, {"chars"}));
  BUTTRESS_ASSIGN_OR_RETURN(const auto characters, TextArgument(bound[0], "chars"));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, JinjaToText(value));
  return JinjaValue::Text(std::string(StripText(text, characters, StripSide::kBoth)));
}

Result<JinjaValue> Length(const JinjaValue& value, const JinjaArguments& arguments) {
  BUTTRESS_RETURN_IF_ERROR(ExpectNoArguments(arguments));
  BUTTRESS_ASSIGN_OR_RETURN(const std::int64_t length, JinjaLength(value));
  return JinjaValue(length);
}

template <Result<std::string> (*kMap)(std::string_view)>
Result<JinjaValue> MapText(const JinjaValue& value, const JinjaArguments& arguments) {
  BUTTRESS_RETURN_IF_ERROR(ExpectNoArguments(arguments));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, JinjaToText(value));
  BUTTRESS_ASSIGN_OR_RETURN(std::string mapped, kMap(text));
  return JinjaValue::Text(std::move(mapped));
}

Result<JinjaValue> String(const JinjaValue& value, const JinjaArguments& arguments) {
  BUTTRESS_RETURN_IF_ERROR(ExpectNoArguments(arguments));
  BUTTRESS_ASSIGN_OR_RETURN(std::string text, JinjaToText(value));
  return JinjaValue::Text(std::move(text));
}

Result<JinjaValue> Default(const JinjaValue& value, const JinjaArguments& arguments) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto bound,
                            BindJinjaArguments(arguments, {"default_value", "boolean"}));
  const bool replace = value.is_undefined() || (TruthArgument(bound[1], false) && !value.Truthy());
  return replace ? bound[0].value_or(JinjaValue::Text("")) : value;
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

Result<JinjaValue> Join(const JinjaValue& value, const JinjaArguments& arguments) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto bound, BindJinjaArguments(arguments, {"d", "attribute"}));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string separator,
                            JinjaToText(bound[0].value_or(JinjaValue::Text(""))));
  BUTTRESS_ASSIGN_OR_RETURN(const auto path, TextArgument(bound[1], "attribute"));
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<JinjaValue> items, JinjaIterate(value));
  std::string out;
  for (std::size_t i = 0; i < items.size(); ++i) {
    BUTTRESS_ASSIGN_OR_RETURN(const JinjaValue item, FollowPath(items[i], path));
    BUTTRESS_ASSIGN_OR_RETURN(const std::string text, JinjaToText(item));
    if (i > 0) out += separator;
    out += text;
    if (out.size() > kJinjaTextBytesMax) return ResourceExhausted("join makes too long a text");
  }
  return JinjaValue::Text(std::move(out));
}

Result<JinjaValue> First(const JinjaValue& value, const JinjaArguments& arguments) {
  BUTTRESS_RETURN_IF_ERROR(ExpectNoArguments(arguments));
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<JinjaValue> items, JinjaIterate(value));
  return items.empty() ? JinjaValue::Undefined("there is no first item") : items.front();
}

Result<JinjaValue> Last(const JinjaValue& value, const JinjaArguments& arguments) {
  BUTTRESS_RETURN_IF_ERROR(ExpectNoArguments(arguments));
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<JinjaValue> items, JinjaIterate(value));
  return items.empty() ? JinjaValue::Undefined("there is no last item") : items.back();
}

Result<JinjaValue> Replace(const JinjaValue& value, const JinjaArguments& arguments) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto bound,
                            BindJinjaArguments(arguments, {"old", "new", "count"}));
  if (!bound[0].has_value() || !bound[1].has_value()) {
    return InvalidArgument("two texts are expected");
  }
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, JinjaToText(value));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string from, JinjaToText(*bound[0]));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string to, JinjaToText(*bound[1]));
  BUTTRESS_ASSIGN_OR_RETURN(const std::int64_t count, IntegerArgument(bound[2], "count", -1));
  BUTTRESS_ASSIGN_OR_RETURN(std::string replaced, ReplaceText(text, from, to, count));
  return JinjaValue::Text(std::move(replaced));
}

Result<JinjaValue> Items(const JinjaValue& value, const JinjaArguments& arguments) {
  if (value.is_undefined()) return JinjaValue::List({});
  if (!value.is_dict()) {
    return InvalidArgument("a mapping is expected, not '" + std::string(value.TypeName()) + "'");
  }
  return CallJinjaMethod({value, "items"}, arguments);
}

Result<JinjaValue> List(const JinjaValue& value, const JinjaArguments& arguments) {
  BUTTRESS_RETURN_IF_ERROR(ExpectNoArguments(arguments));
  BUTTRESS_ASSIGN_OR_RETURN(std::vector<JinjaValue> items, JinjaIterate(value));
  return JinjaValue::List(std::move(items));
}

Result<JinjaValue> Reverse(const JinjaValue& value, const JinjaArguments& arguments) {
  BUTTRESS_RETURN_IF_ERROR(ExpectNoArguments(arguments));
  if (value.is_text()) return JinjaSlice(value, {.begin = {}, .end = {}, .step = -1});
  BUTTRESS_ASSIGN_OR_RETURN(std::vector<JinjaValue> items, JinjaIterate(value));
  std::reverse(items.begin(), items.end());
  return JinjaValue::List(std::move(items));
}

// map(attribute="a.b", default=x), or map("filter", arguments...).
Result<JinjaValue> Map(const JinjaValue& value, const JinjaArguments& arguments) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<JinjaValue> items, JinjaIterate(value));
  std::vector<JinjaValue> out;
  if (arguments.positional.empty()) {
    BUTTRESS_ASSIGN_OR_RETURN(const auto bound,
                              BindJinjaArguments(arguments, {"attribute", "default"}));
    BUTTRESS_ASSIGN_OR_RETURN(const auto path, TextArgument(bound[0], "attribute"));
    if (!path.has_value()) return InvalidArgument("an attribute or a filter is expected");
    for (const JinjaValue& item : items) {
      BUTTRESS_ASSIGN_OR_RETURN(JinjaValue mapped, FollowPath(item, path));
      if (mapped.is_undefined() && bound[1].has_value()) mapped = *bound[1];
      out.push_back(std::move(mapped));
    }
    return JinjaValue::List(std::move(out));
  }
  const JinjaValue& name = arguments.positional[0];
  if (!name.is_text() || !IsJinjaFilter(name.text())) {
    return InvalidArgument("its first argument is not a supported filter");
  }
  const JinjaArguments rest{{arguments.positional.begin() + 1, arguments.positional.end()},
                            arguments.named};
  for (const JinjaValue& item : items) {
    BUTTRESS_ASSIGN_OR_RETURN(JinjaValue mapped, ApplyJinjaFilter(name.text(), item, rest));
    out.push_back(std::move(mapped));
  }
  return JinjaValue::List(std::move(out));
}

// select(test, arguments...) and selectattr(attribute, test, arguments...). Without a test, items
// are selected by their truth.
template <bool kByAttribute, bool kKeeps>
Result<JinjaValue> Select(const JinjaValue& value, const JinjaArguments& arguments) {
  constexpr std::size_t kTestAt = kByAttribute ? 1 : 0;
  std::optional<std::string> path;
  if (kByAttribute) {
    if (arguments.positional.empty()) return InvalidArgument("an attribute is expected");
    BUTTRESS_ASSIGN_OR_RETURN(path, TextArgument(arguments.positional[0], "attribute"));
  }
  std::string test;
  JinjaArguments rest{{}, arguments.named};
  if (arguments.positional.size() > kTestAt) {
    const JinjaValue& name = arguments.positional[kTestAt];
    if (!name.is_text() || !IsJinjaTest(name.text())) {
      return InvalidArgument("its test is not a supported one");
    }
    test = name.text();
    rest.positional.assign(arguments.positional.begin() + kTestAt + 1, arguments.positional.end());
  }
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<JinjaValue> items, JinjaIterate(value));
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

Result<JinjaValue> Indent(const JinjaValue& value, const JinjaArguments& arguments) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto bound,
                            BindJinjaArguments(arguments, {"width", "first", "blank"}));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string indent, IndentOf(bound[0], 4));
  if (!value.is_text()) {
    return InvalidArgument("a text is expected, not '" + std::string(value.TypeName()) + "'");
  }
  const bool blank = TruthArgument(bound[2], false);
  // Jinja appends a line end before it splits the text, so that a final line end is kept.
  const std::vector<std::string> lines = SplitTextLines(value.text() + "\n");
  std::string out = TruthArgument(bound[1], false) ? indent : "";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += '\n';
    if (i > 0 && (blank || !lines[i].empty())) out += indent;
    out += lines[i];
    if (out.size() > kJinjaTextBytesMax) return ResourceExhausted("indent makes too long a text");
  }
  return JinjaValue::Text(std::move(out));
}

struct NamedFilter {
  std::string_view name;
  Filter filter;
};

Result<JinjaValue> MisplacedSafe(const JinjaValue& /*value*/, const JinjaArguments& /*arguments*/) {
  return InvalidArgument("supported at the end of {{ }} only, where it changes nothing");
}

constexpr NamedFilter kFilters[] = {
    {"capitalize", MapText<CapitalizeText>},
    {"count", Length},
    {"d", Default},
    {"default", Default},
    {"first", First},
    {"indent", Indent},
    {"items", Items},
    {"join", Join},
    {"last", Last},
    {"length", Length},
    {"list", List},
    {"lower", MapText<LowerText>},
    {"map", Map},
    {"reject", Select<false, false>},
    {"rejectattr", Select<true, false>},
    {"replace", Replace},
    {"reverse", Reverse},
    {"safe", MisplacedSafe},
    {"select", Select<false, true>},
    {"selectattr", Select<true, true>},
    {"string", String},
    {"tojson", ToJson},
    {"trim", Trim},
    {"upper", MapText<UpperText>},
};

Filter FindFilter(std::string_view name) {
  const auto* const it = std::find_if(std::begin(kFilters), std::end(kFilters),
                                      [&](const NamedFilter& entry) { return entry.name == name; });
  return it == std::end(kFilters) ? nullptr : it->filter;
}

}  // namespace

bool IsJinjaFilter(std::string_view name) { return FindFilter(name) != nullptr; }

Result<JinjaValue> ApplyJinjaFilter(std::string_view name, const JinjaValue& value,
                                    const JinjaArguments& arguments) {
  const Filter filter = FindFilter(name);
  BUTTRESS_CHECK(filter != nullptr, "the parser refuses unknown filters");
  Result<JinjaValue> result = filter(value, arguments);
  if (!result.ok()) return result.status().Annotate("filter '" + std::string(name) + "'");
  return result;
}

}  // namespace buttress
