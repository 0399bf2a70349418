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

template <class T>
concept ListSetting = std::same_as<T, std::vector<typename T::value_type>>;

std::string ToText(bool value);
std::string ToText(std::int64_t value);
std::string ToText(std::uint64_t value);
std::string ToText(double value);
std::string ToText(const std::string& value);

template <Choice E>
std::string ToText(E value) {
  return std::string(ChoiceName(value));
}

// Binds the sections `run` and `local` of a YAML tree, and returns every error instead of stopping
// at the first; `file` is the name of the text in them.
std::vector<std::string> BindYaml(const YAML::Node& root, const std::string& file,
                                  RunConfig& config);

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
    } else if constexpr (ListSetting<T>) {
      out_ << YAML::Flow << YAML::BeginSeq;
      for (auto& item : value) Print(item);
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
