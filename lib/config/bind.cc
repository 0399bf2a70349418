#include "lib/config/bind.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <type_traits>

#include "lib/config/describe.h"

namespace buttress {
namespace {

// Returns false, and leaves `value`, if the text is not of the type.
template <class T>
bool FromText(const std::string& text, T& value) {
  if constexpr (std::same_as<T, std::string>) {
    value = text;
  } else if constexpr (std::same_as<T, bool>) {
    if (text != "true" && text != "false") return false;
    value = text == "true";
  } else {
    T parsed{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
    if (error != std::errc() || end != text.data() + text.size()) return false;
    value = parsed;
  }
  return true;
}

template <class T>
constexpr const char* kTypeName = std::same_as<T, bool>            ? "true or false"
                                  : std::same_as<T, std::int64_t>  ? "an integer"
                                  : std::same_as<T, std::uint64_t> ? "a non-negative integer"
                                  : std::same_as<T, double>        ? "a number"
                                                                   : "text";

// "run: {optim: {lr: ...}}" for "run.optim.lr".
std::string Nested(const std::string& key) {
  std::string text, closing;
  for (const char c : key) {
    text += c == '.' ? std::string(": {") : std::string(1, c);
    if (c == '.') closing += '}';
  }
  return text + ": ..." + closing;
}

// Binds a YAML mapping to a section.
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
  void CheckUnknownKeys() {
    std::set<std::string> seen;
    for (const auto& entry : node_) {
      const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : Text(entry.first);
      if (!seen.insert(key).second)
        Error(entry.first, key, "the key appears twice; keep one of them");
      if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
      // A name of this section that is nearly the same comes before keys of other sections.
      const std::string names = SuggestNames(key, known_);
      const std::string meant = names.starts_with("; did you mean") ? "" : SuggestWholeKeys(key);
      if (meant == "'" + key + "'") {
        Error(entry.first, key, "unknown key; write '" + Nested(key) + "'");
      } else {
        Error(entry.first, key,
              "unknown key" + (meant.empty() ? names : "; did you mean " + meant + "?"));
      }
    }
  }

 private:
  template <class T>
  void Bind(const char* name, const YAML::Node& child, T& value) {
    if constexpr (Section<T>) {
      BindSection(name, child, value);
    } else if constexpr (SectionMap<T>) {
      BindSections(name, child, value);
    } else if constexpr (ListSetting<T>) {
      BindList(name, child, value);
    } else if constexpr (std::same_as<T, std::map<std::string, std::string>>) {
      BindMap(name, child, value);
    } else if constexpr (Choice<T>) {
      BindChoice(name, child, value);
    } else if (!child.IsScalar() || !FromText(child.Scalar(), value)) {
      Error(child, name, std::string("expected ") + kTypeName<T> + ", found '" + Text(child) + "'");
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
      if constexpr (Choice<T>) {
        BindChoice(name, item, element);
      } else if (!item.IsScalar() || !FromText(item.Scalar(), element)) {
        return Error(item, name, std::string("expected a list, each element ") + kTypeName<T>);
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
               std::map<std::string, std::string>& value) {
    if (!child.IsMap())
      return Error(child, name, "expected key: value lines, found '" + Text(child) + "'");
    value.clear();
    for (const auto& item : child) {
      if (!item.second.IsScalar())
        return Error(item.second, name, "expected text for '" + item.first.Scalar() + "'");
      value[item.first.Scalar()] = item.second.Scalar();
    }
  }

  void Error(const YAML::Node& at, const std::string& name, const std::string& what) {
    errors_.push_back(Place(at) + ": " + Path(name) + ": " + what);
  }

  // "run.yaml:3", or "--set" for a node that comes from there.
  std::string Place(const YAML::Node& at) const {
    const YAML::Mark mark = at.Mark();
    // A node created by --set has no line in the file.
    return mark.is_null() ? "--set" : file_ + ":" + std::to_string(mark.line + 1);
  }

  std::string Path(const std::string& name) const {
    return path_.empty() ? name : path_ + "." + name;
  }

  static std::string Text(const YAML::Node& node) {
    if (node.IsScalar()) return node.Scalar();
    YAML::Emitter out;
    out << YAML::Flow << node;
    std::string text = out.c_str();
    if (text.size() > 40) text = text.substr(0, 40) + "...";
    return text;
  }

  YAML::Node node_;
  std::string path_;
  std::string file_;
  std::vector<std::string>& errors_;
  std::vector<std::string_view> known_;
};

class SettingLister {
 public:
  SettingLister(std::string path, std::vector<Setting>& settings, bool absent = false)
      : path_(std::move(path)), settings_(settings), absent_(absent) {}

  template <class T>
  void operator()(const char* name, T& value, const char* meaning, const Limits& limits = {}) {
    Setting setting;
    setting.key = path_.empty() ? name : path_ + "." + name;
    setting.absent = absent_;
    if constexpr (Section<T>) {
      settings_.push_back(setting);
      Visit(setting.key, value, absent_);
    } else if constexpr (SectionMap<T>) {
      setting.meaning = meaning;
      setting.shown = "empty";
      setting.absent = true;
      settings_.push_back(setting);
      for (auto& [own, section] : value) Visit(setting.key + "." + own, section, absent_);
      typename T::mapped_type section;
      if (value.empty()) Visit(setting.key + ".NAME", section, true);
    } else if constexpr (OptionalSetting<T>) {
      setting.absent |= !value;
      Describe(setting, value.value_or(typename T::value_type{}), meaning, limits);
      setting.shown = "as there";
      setting.yaml = std::string(name) + ":";
      settings_.push_back(setting);
    } else {
      Describe(setting, value, meaning, limits);
      setting.yaml = YamlOf(name, value);
      settings_.push_back(setting);
    }
  }

 private:
  template <Section T>
  void Visit(const std::string& path, T& section, bool absent) {
    SettingLister nested(path, settings_, absent);
    section.Visit(nested);
  }

  template <class T>
  static void Describe(Setting& setting, const T& value, const char* meaning,
                       const Limits& limits) {
    setting.value = TextOf(value);
    setting.meaning = meaning;
    setting.shown = IsEmpty(value) ? "empty" : setting.value;
    if constexpr (Choice<T>) {
      setting.meaning += ": " + DescribeChoices<T>();
    } else if constexpr (ListSetting<T>) {
      if constexpr (Choice<typename T::value_type>)
        setting.meaning += ": " + DescribeChoices<typename T::value_type>();
    }
    setting.broken = Broken(setting.key, value, limits);
    setting.may_change = limits.may_change;
  }

  template <class T>
  static bool IsEmpty(const T& value) {
    if constexpr (requires { value.empty(); }) return value.empty();
    return false;
  }

  template <class T>
  static std::string TextOf(const T& value) {
    if constexpr (requires { ToText(value); }) {
      return ToText(value);
    } else {
      std::string text;
      for (const auto& item : value) {
        text += text.empty() ? "" : ", ";
        if constexpr (requires { item.second; }) {
          text += item.first + ": " + item.second;
        } else {
          text += ToText(item);
        }
      }
      return (std::same_as<T, std::map<std::string, std::string>> ? "{" + text + "}"
                                                                  : "[" + text + "]");
    }
  }

  template <class T>
  static std::string Broken(const std::string& key, const T& value, const Limits& limits) {
    std::string broken;
    if constexpr (std::is_arithmetic_v<T>) {
      if (!limits.Hold(static_cast<double>(value)))
        broken = "\n  " + key + " = " + ToText(value) + ": " + RangeText<T>(limits);
    } else if constexpr (ListSetting<T>) {
      for (const auto& item : value) broken += Broken(key, item, limits);
    }
    return broken;
  }

  // "1 or more".
  template <class T>
  static std::string RangeText(const Limits& limits) {
    const bool has_most = std::isfinite(limits.most);
    if (!std::isfinite(limits.least)) return "a finite number";
    const std::string least = ToText(static_cast<T>(limits.least));
    if (!has_most) return limits.above_least ? "above " + least : least + " or more";
    const std::string most = ToText(static_cast<T>(limits.most));
    if (limits.above_least) return "above " + least + " and at most " + most;
    if (limits.below_most) return "in [" + least + ", " + most + ")";
    return "between " + least + " and " + most + limits.why;
  }

  template <class T>
  static std::string YamlOf(const char* name, T& value) {
    YAML::Emitter yaml;
    yaml << YAML::BeginMap;
    YamlPrinter printer(yaml);
    printer(name, value, "");
    yaml << YAML::EndMap;
    return yaml.c_str();
  }

  const std::string path_;
  std::vector<Setting>& settings_;
  const bool absent_;
};

}  // namespace

std::string ToText(bool value) { return value ? "true" : "false"; }

std::string ToText(std::int64_t value) { return std::to_string(value); }

std::string ToText(std::uint64_t value) { return std::to_string(value); }

std::string ToText(double value) {
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof text, value);
  return std::string(text, end);
}

std::string ToText(const std::string& value) { return value; }

std::vector<std::string> BindYaml(const YAML::Node& root, const std::string& file,
                                  RunConfig& config) {
  std::vector<std::string> errors;
  YamlBinder binder(root, "", file, errors);
  config.Visit(binder);
  binder.CheckUnknownKeys();
  return errors;
}

std::vector<Setting> ListSettings(const RunConfig& config) {
  std::vector<Setting> settings;
  SettingLister lister("", settings);
  RunConfig(config).Visit(lister);
  return settings;
}

}  // namespace buttress
