// The visitors behind load.h. Binding, unknown-key errors, printing, help, ranges and what may
// change on a resume all come from one list of fields (run_config.h).
#pragma once

#include <yaml-cpp/yaml.h>

#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/config/choice.h"
#include "lib/config/limits.h"
#include "lib/config/run_config.h"

namespace buttress {

// A struct of settings.
template <class T>
concept Section = requires(T section, decltype([](const char*, auto&, auto&&...) {}) v) {
  section.Visit(v);
};

// Sections by a name that the user chooses.
template <class T>
concept SectionMap = Section<typename T::mapped_type> &&
    std::same_as<T, std::map<std::string, typename T::mapped_type>>;

// A setting that may be absent.
template <class T>
concept OptionalSetting = std::same_as<T, std::optional<typename T::value_type>>;

// Scalar conversions. FromText returns false if the text is not of the type.
bool FromText(const std::string& text, bool& value);
bool FromText(const std::string& text, std::int64_t& value);
bool FromText(const std::string& text, std::uint64_t& value);
bool FromText(const std::string& text, double& value);
bool FromText(const std::string& text, std::string& value);
std::string ToText(bool value);
std::string ToText(std::int64_t value);
std::string ToText(std::uint64_t value);
std::string ToText(double value);
std::string ToText(const std::string& value);

template <Choice E>
std::string ToText(E value) {
  return std::string(ChoiceName(value));
}

inline const char* TypeName(bool) { return "true or false"; }

inline const char* TypeName(std::int64_t) { return "an integer"; }

inline const char* TypeName(std::uint64_t) { return "a non-negative integer"; }

inline const char* TypeName(double) { return "a number"; }

inline const char* TypeName(const std::string&) { return "text"; }

// Binds a YAML mapping to a section, and collects every error instead of stopping at the first.
class YamlBinder {
 public:
  YamlBinder(const YAML::Node& node, std::string path, std::string file,
             std::vector<std::string>& errors)
      : node_(node), path_(std::move(path)), file_(std::move(file)), errors_(errors) {}

  template <class T>
  void operator()(const char* name, T& value, const char*, const Limits& = {}) {
    known_.push_back(name);
    if (!node_.IsMap()) return;
    const YAML::Node child = node_[name];
    if (!child.IsDefined() || child.IsNull()) return;
    if constexpr (OptionalSetting<T>) {
      Bind(name, child, value.emplace());
    } else {
      Bind(name, child, value);
    }
  }

  // Reports the keys of the mapping that are not fields of the section.
  void CheckUnknownKeys();

 private:
  template <class T>
  void Bind(const char* name, const YAML::Node& child, T& value) {
    if constexpr (Section<T>) {
      BindSection(name, child, value);
    } else if constexpr (SectionMap<T>) {
      BindSections(name, child, value);
    } else if constexpr (std::same_as<T, std::vector<std::string>> ||
                         std::same_as<T, std::vector<double>> ||
                         std::same_as<T, std::vector<std::int64_t>>) {
      BindList(name, child, value);
    } else if constexpr (std::same_as<T, std::map<std::string, std::string>>) {
      BindMap(name, child, value);
    } else if constexpr (Choice<T>) {
      BindChoice(name, child, value);
    } else if (!child.IsScalar() || !FromText(child.Scalar(), value)) {
      Error(child, name,
            std::string("expected ") + TypeName(value) + ", found '" + Text(child) + "'");
    }
  }

  template <class T>
  void BindSections(const char* name, const YAML::Node& child, T& value) {
    if (!child.IsMap())
      return Error(child, name, "expected name: section lines, found '" + Text(child) + "'");
    for (const auto& item : child) {
      const std::string key = Path(name) + "." + Text(item.first);
      if (!value.try_emplace(Text(item.first)).second) {
        errors_.push_back(Place(item.first) + ": " + key + ": the name appears twice");
      } else if (item.second.IsMap()) {
        YamlBinder binder(item.second, key, file_, errors_);
        value[Text(item.first)].Visit(binder);
        binder.CheckUnknownKeys();
      } else {
        errors_.push_back(Place(item.second) + ": " + key + ": expected a section");
      }
    }
  }

  template <class T>
  void BindSection(const char* name, const YAML::Node& child, T& value) {
    if (!child.IsMap())
      return Error(child, name,
                   "expected a section (key: value lines), found '" + Text(child) + "'");
    YamlBinder binder(child, Path(name), file_, errors_);
    value.Visit(binder);
    binder.CheckUnknownKeys();
  }

  template <class T>
  void BindList(const char* name, const YAML::Node& child, std::vector<T>& value) {
    if (!child.IsSequence())
      return Error(child, name, "expected a list, found '" + Text(child) + "'");
    value.clear();
    for (const auto& item : child) {
      T element{};
      if (!item.IsScalar() || !FromText(item.Scalar(), element)) {
        return Error(item, name, std::string("expected a list, each element ") + TypeName(element));
      }
      value.push_back(element);
    }
  }

  template <Choice E>
  void BindChoice(const char* name, const YAML::Node& child, E& value) {
    const Result<E> found = FindChoice<E>(Text(child));
    if (!found.ok()) return Error(child, name, found.status().message());
    value = *found;
  }

  void BindMap(const char* name, const YAML::Node& child,
               std::map<std::string, std::string>& value);
  void Error(const YAML::Node& at, const std::string& name, const std::string& what);
  // "run.yaml:3", or "--set" for a node that comes from there.
  std::string Place(const YAML::Node& at) const;

  std::string Path(const std::string& name) const {
    return path_.empty() ? name : path_ + "." + name;
  }

  static std::string Text(const YAML::Node& node);

  YAML::Node node_;
  std::string path_;
  std::string file_;
  std::vector<std::string>& errors_;
  std::vector<std::string_view> known_;
};

// Writes a section as YAML.
class YamlPrinter {
 public:
  explicit YamlPrinter(YAML::Emitter& out) : out_(out) {}

  template <class T>
  void operator()(const char* name, T& value, const char*, const Limits& = {}) {
    if constexpr (OptionalSetting<T>) {
      if (value) (*this)(name, *value, "");
      return;
    } else {
      out_ << YAML::Key << name << YAML::Value;
      Print(value);
    }
  }

 private:
  template <class T>
  void Print(T& value) {
    if constexpr (Section<T>) {
      out_ << YAML::BeginMap;
      YamlPrinter nested(out_);
      value.Visit(nested);
      out_ << YAML::EndMap;
    } else if constexpr (SectionMap<T>) {
      out_ << YAML::BeginMap;
      for (auto& [name, section] : value) {
        out_ << YAML::Key << YAML::DoubleQuoted << name << YAML::Value;
        Print(section);
      }
      out_ << YAML::EndMap;
    } else if constexpr (std::same_as<T, std::vector<std::string>>) {
      out_ << YAML::Flow << YAML::BeginSeq;
      for (const std::string& item : value) out_ << YAML::DoubleQuoted << item;
      out_ << YAML::EndSeq;
    } else if constexpr (std::same_as<T, std::vector<double>> ||
                         std::same_as<T, std::vector<std::int64_t>>) {
      out_ << YAML::Flow << YAML::BeginSeq;
      for (const auto item : value) out_ << ToText(item);
      out_ << YAML::EndSeq;
    } else if constexpr (std::same_as<T, std::map<std::string, std::string>>) {
      out_ << YAML::Flow << YAML::BeginMap;
      for (const auto& [key, item] : value) {
        out_ << YAML::Key << YAML::DoubleQuoted << key << YAML::Value << YAML::DoubleQuoted << item;
      }
      out_ << YAML::EndMap;
    } else if constexpr (std::same_as<T, std::string> || Choice<T>) {
      out_ << YAML::DoubleQuoted << ToText(value);
    } else {
      out_ << ToText(value);
    }
  }

  YAML::Emitter& out_;
};

// A setting of a configuration, or a section.
struct Setting {
  std::string key;      // "run.optim.lr"
  std::string value;    // "1e-06", "[a, b]" or "{key: value}"
  std::string meaning;  // with its choices; empty for a section
  std::string shown;    // the value in --describe-config
  std::string yaml;     // "lr: 1e-06"; empty for a section
  std::string broken;   // "\n  run.optim.lr = -1: 0 or more" if the value is outside its limits
  bool may_change = false;
  bool absent = false;  // an optional one without a value, or of a section without a name
};

// Every setting and section in the order of the documentation. A map of sections without entries
// has those of one that is called NAME.
std::vector<Setting> ListSettings(const RunConfig& config);

}  // namespace buttress
