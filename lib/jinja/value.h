// The values that a chat template computes with: Python's, as far as templates need them.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lib/base/status.h"

namespace buttress {

struct JinjaList;
struct JinjaDict;
struct JinjaNamespace;
struct JinjaLoop;
struct JinjaMethod;
struct JinjaStatement;

struct JinjaNone {};

// What a missing name or attribute gives. Prints as nothing, is false, holds nothing; anything else
// is an error that `what` explains.
struct JinjaUndefined {
  std::shared_ptr<const std::string> what;
};

enum class JinjaFunction { kRaiseException, kNamespace, kRange, kDict, kStrftimeNow };

using JinjaString = std::shared_ptr<const std::string>;

// Immutable but for namespaces and loops; copies share.
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

  static JinjaValue Undefined(std::string what) {
    return JinjaValue(JinjaUndefined{std::make_shared<const std::string>(std::move(what))});
  }

  static JinjaValue List(std::vector<JinjaValue> items);
  static JinjaValue Tuple(std::vector<JinjaValue> items);
  static JinjaValue Dict(std::vector<std::pair<std::string, JinjaValue>> entries);

  // kInvalidArgument above a nesting of kJinjaNestingMax, for numbers above int64, and for strings
  // that are not UTF-8.
  static Result<JinjaValue> FromJson(const nlohmann::json& value, int nesting = 0);

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

  bool is_list() const { return Is<std::shared_ptr<const JinjaList>>(); }

  bool is_dict() const { return Is<std::shared_ptr<const JinjaDict>>(); }

  bool is_number() const { return Is<bool>() || Is<std::int64_t>() || Is<double>(); }

  const std::string& text() const { return *As<JinjaString>(); }

  const std::vector<JinjaValue>& items() const;
  const std::vector<std::pair<std::string, JinjaValue>>& entries() const;

  // A number's value. REQUIRES: is_number().
  double number() const;

  bool Truthy() const;

  // Levels of lists, dicts and the like; 0 for a scalar. kJinjaNestingMax for a namespace, so that
  // whatever holds one is above it: a namespace that held itself would never be freed.
  int nesting() const;

  // Values in it, itself included, each time it is reached; 1 for a scalar.
  std::int64_t count() const;

  // "str", "list", ...: Python's name of the type.
  std::string_view TypeName() const;

 private:
  Variant value_;
};

// Bounds of a value: on nesting, so that neither printing nor destruction exhausts the stack; on
// the values in it, since lists share.
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
  std::vector<std::pair<std::string, JinjaValue>> entries;  // in order of insertion, keys differ
  int nesting = 1;
  std::int64_t count = 1;

  // Null if there is none.
  const JinjaValue* Find(std::string_view key) const;
};

// The one mutable value. Holds no namespaces, so there are no cycles.
struct JinjaNamespace {
  std::vector<std::pair<std::string, JinjaValue>> entries;
};

// `loop` inside a for.
struct JinjaLoop {
  JinjaValue items;
  std::size_t index = 0;
};

// `text.strip`: a method with its object.
struct JinjaMethod {
  JinjaValue self;
  std::string name;
};

// Python's ==.
bool JinjaEqual(const JinjaValue& left, const JinjaValue& right);

// Python's <. kInvalidArgument for types without an order.
Result<bool> JinjaLess(const JinjaValue& left, const JinjaValue& right);

// Python's `in`.
Result<bool> JinjaContains(const JinjaValue& container, const JinjaValue& item);

// What a for loop goes over: items, keys, characters. Undefined has none.
Result<std::vector<JinjaValue>> JinjaIterate(const JinjaValue& value);

// Python's len.
Result<std::int64_t> JinjaLength(const JinjaValue& value);

}  // namespace buttress
