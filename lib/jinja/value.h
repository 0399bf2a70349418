// The values that a chat template computes with: the subset of Python's that templates need.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lib/base/report/status.h"

namespace buttress {

struct JinjaList;
struct JinjaDict;
struct JinjaNamespace;
struct JinjaLoop;
struct JinjaMethod;
struct JinjaStatement;
class JinjaValue;

struct JinjaNone {};

// The value of a missing name or attribute. It prints as nothing, is false and is empty; any other
// use is an error with the message `what`.
struct JinjaUndefined {
  std::shared_ptr<const std::string> what;
};

enum class JinjaFunction { kRaiseException, kNamespace, kRange, kDict, kStrftimeNow };

using JinjaString = std::shared_ptr<const std::string>;

// Names, which are unique, and their values, in order of insertion.
using JinjaEntries = std::vector<std::pair<std::string, JinjaValue>>;

// Immutable, except for namespaces and loops. Copies share their contents.
class JinjaValue {
 public:
  using Variant = std::variant<JinjaNone, JinjaUndefined, bool, std::int64_t, double, JinjaString,
                               std::shared_ptr<const JinjaList>, std::shared_ptr<const JinjaDict>,
                               std::shared_ptr<JinjaNamespace>, std::shared_ptr<JinjaLoop>,
                               std::shared_ptr<const JinjaMethod>,
                               const JinjaStatement*,  // a macro
                               JinjaFunction>;

  JinjaValue() = default;  // none

  template <class T>
  requires std::is_constructible_v<Variant, T>

  explicit JinjaValue(T value) : value_(std::move(value)) {}

  static JinjaValue Text(std::string text) {
    return JinjaValue(std::make_shared<const std::string>(std::move(text)));
  }

  // A text that the filter `safe` returns. Jinja shows it as it is, but escapes HTML in what is
  // added to it; here such uses are errors.
  static JinjaValue SafeText(std::string text) {
    JinjaValue value = Text(std::move(text));
    value.safe_ = true;
    return value;
  }

  static JinjaValue Undefined(std::string what) {
    return JinjaValue(JinjaUndefined{std::make_shared<const std::string>(std::move(what))});
  }

  static JinjaValue List(std::vector<JinjaValue> items);
  static JinjaValue Tuple(std::vector<JinjaValue> items);
  static JinjaValue Dict(JinjaEntries entries);

  // Returns kInvalidArgument for values nested deeper than kJinjaNestingMax, numbers above int64,
  // and strings that are not UTF-8.
  static Result<JinjaValue> FromJson(const nlohmann::ordered_json& value, int nesting = 0);

  template <class T>
  bool Is() const {
    return std::holds_alternative<T>(value_);
  }

  // REQUIRES: Is<T>().
  template <class T>
  const T& As() const {
    return *std::get_if<T>(&value_);
  }

  bool is_none() const { return Is<JinjaNone>(); }

  bool is_undefined() const { return Is<JinjaUndefined>(); }

  bool is_text() const { return Is<JinjaString>(); }

  bool is_safe_text() const { return safe_; }

  bool is_list() const { return Is<std::shared_ptr<const JinjaList>>(); }

  bool is_dict() const { return Is<std::shared_ptr<const JinjaDict>>(); }

  // True for bool too, as in Python.
  bool is_integer() const { return Is<bool>() || Is<std::int64_t>(); }

  bool is_number() const { return is_integer() || Is<double>(); }

  const std::string& text() const { return *As<JinjaString>(); }

  const std::vector<JinjaValue>& items() const;
  const JinjaEntries& entries() const;

  // REQUIRES: is_integer().
  std::int64_t integer() const { return Is<bool>() ? As<bool>() : As<std::int64_t>(); }

  // The value of a number. REQUIRES: is_number().
  double number() const;

  bool Truthy() const;

  // The number of nested containers; 0 for a scalar. A namespace counts kJinjaNestingMax, so that
  // no value may contain one: a namespace that contained itself would never be freed.
  int nesting() const;

  // The number of values in this one, itself included; a shared value counts each time it is
  // reached. 1 for a scalar.
  std::int64_t count() const;

  // Python's name of the type: "str", "list", ...
  std::string_view TypeName() const;

 private:
  Variant value_;
  bool safe_ = false;
};

// Bounds of a value. The first keeps printing and destruction from exhausting the stack. The second
// bounds the work on lists that share their items.
inline constexpr int kJinjaNestingMax = 100;
inline constexpr std::int64_t kJinjaCountMax = 1'000'000;

inline constexpr std::size_t kJinjaTextBytesMax = std::size_t{16} << 20;

struct JinjaList {
  std::vector<JinjaValue> items;
  bool tuple = false;
  int nesting = 1;
  std::int64_t count = 1;
};

struct JinjaDict {
  JinjaEntries entries;
  int nesting = 1;
  std::int64_t count = 1;
};

// The one mutable value. It cannot contain namespaces, so there are no cycles.
struct JinjaNamespace {
  JinjaEntries entries;
};

// `loop` inside a for.
struct JinjaLoop {
  JinjaValue items;
  std::size_t index = 0;
};

// A method bound to its object: `text.strip`.
struct JinjaMethod {
  JinjaValue self;
  std::string name;
};

// Returns null if there is no such name.
const JinjaValue* FindEntry(const JinjaEntries& entries, std::string_view name);

// Replaces the value of `name`, or appends it.
void SetEntry(JinjaEntries& entries, std::string_view name, JinjaValue value);

// Returns Python's left == right.
bool JinjaEqual(const JinjaValue& left, const JinjaValue& right);

// Returns Python's left < right, or kInvalidArgument for types without an order.
Result<bool> JinjaLess(const JinjaValue& left, const JinjaValue& right);

// Returns Python's `item in container`.
Result<bool> JinjaContains(const JinjaValue& container, const JinjaValue& item);

// Returns the items, keys or characters that a for loop visits; none for undefined.
Result<std::vector<JinjaValue>> JinjaIterate(const JinjaValue& value);

// Returns Python's len(value).
Result<std::int64_t> JinjaLength(const JinjaValue& value);

}  // namespace buttress
