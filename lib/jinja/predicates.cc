#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "lib/base/report/check.h"
#include "lib/jinja/builtins.h"

namespace buttress {
namespace {

using Predicate = bool (*)(const JinjaValue& value);
using Comparison = Result<bool> (*)(const JinjaValue& value, const JinjaValue& other);

struct NamedPredicate {
  std::string_view name;
  Predicate holds;
};

struct NamedComparison {
  std::string_view name;
  Comparison holds;
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

Result<bool> Equal(const JinjaValue& value, const JinjaValue& other) {
  return JinjaEqual(value, other);
}

Result<bool> NotEqual(const JinjaValue& value, const JinjaValue& other) {
  return !JinjaEqual(value, other);
}

Result<bool> In(const JinjaValue& value, const JinjaValue& other) {
  return JinjaContains(other, value);
}

constexpr NamedComparison kComparisons[] = {
    {"equalto", Equal}, {"eq", Equal},           {"ne", NotEqual},
    {"lt", JinjaLess},  {"lessthan", JinjaLess}, {"in", In},
};

template <class Table>
auto Find(const Table& table, std::string_view name) {
  const auto* const it = std::find_if(std::begin(table), std::end(table),
                                      [&](const auto& entry) { return entry.name == name; });
  return it == std::end(table) ? nullptr : it->holds;
}

}  // namespace

bool IsJinjaTest(std::string_view name) {
  return Find(kPredicates, name) != nullptr || Find(kComparisons, name) != nullptr;
}

Result<bool> ApplyJinjaTest(std::string_view name, const JinjaValue& value,
                            const JinjaArguments& arguments) {
  const bool takes_argument = Find(kComparisons, name) != nullptr;
  const std::size_t expected = takes_argument ? 1 : 0;
  if (arguments.positional.size() != expected || !arguments.named.empty()) {
    return InvalidArgument(fmt::format("test '{}' takes {} arguments", name, expected));
  }
  if (takes_argument) return Find(kComparisons, name)(value, arguments.positional[0]);
  const Predicate predicate = Find(kPredicates, name);
  BUTTRESS_CHECK(predicate != nullptr, "the parser refuses unknown tests");
  return predicate(value);
}

}  // namespace buttress
