#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "lib/base/report/check.h"
#include "lib/jinja/builtins.h"

namespace buttress {
namespace {

struct NamedPredicate {
  std::string_view name;
  bool (*holds)(const JinjaValue& value);
};

// A test with an argument, which is a comparison of the value with it.
struct NamedComparison {
  std::string_view name;
  std::string_view comparison;
};

constexpr NamedPredicate kPredicates[] = {
    {"defined", [](const JinjaValue& v) { return !v.is_undefined(); }},
    {"undefined", [](const JinjaValue& v) { return v.is_undefined(); }},
    {"none", [](const JinjaValue& v) { return v.is_none(); }},
    {"boolean", [](const JinjaValue& v) { return v.Is<bool>(); }},
    {"true", [](const JinjaValue& v) { return v.Is<bool>() && v.As<bool>(); }},
    {"false", [](const JinjaValue& v) { return v.Is<bool>() && !v.As<bool>(); }},
    {"integer", [](const JinjaValue& v) { return v.Is<std::int64_t>(); }},
    {"float", [](const JinjaValue& v) { return v.Is<double>(); }},
    {"number", [](const JinjaValue& v) { return v.is_number(); }},
    {"string", [](const JinjaValue& v) { return v.is_text(); }},
    {"mapping", [](const JinjaValue& v) { return v.is_dict(); }},
    // Undefined in Jinja has a length and can be iterated over.
    {"sequence",
     [](const JinjaValue& v) {
       return v.is_text() || v.is_list() || v.is_dict() || v.is_undefined();
     }},
    {"iterable", [](const JinjaValue& v) { return JinjaIterate(v).ok(); }},
};

constexpr NamedComparison kComparisons[] = {
    {"equalto", "=="}, {"eq", "=="}, {"ne", "!="}, {"lt", "<"}, {"lessthan", "<"}, {"in", "in"},
};

template <class Table>
auto Find(const Table& table, std::string_view name) {
  const auto* const it =
      std::ranges::find_if(table, [&](const auto& entry) { return entry.name == name; });
  return it == std::end(table) ? nullptr : it;
}

}  // namespace

bool IsJinjaTest(std::string_view name) {
  return Find(kPredicates, name) != nullptr || Find(kComparisons, name) != nullptr;
}

Result<bool> ApplyJinjaTest(std::string_view name, const JinjaValue& value,
                            const JinjaArguments& arguments) {
  const NamedComparison* const comparison = Find(kComparisons, name);
  const std::size_t expected = comparison != nullptr ? 1 : 0;
  if (arguments.positional.size() != expected || !arguments.named.empty()) {
    return InvalidArgument(fmt::format("test '{}' takes {} arguments", name, expected));
  }
  if (comparison != nullptr)
    return JinjaCompare(comparison->comparison, value, arguments.positional[0]);
  const NamedPredicate* const predicate = Find(kPredicates, name);
  BUTTRESS_CHECK(predicate != nullptr, "the parser refuses unknown tests");
  return predicate->holds(value);
}

}  // namespace buttress
