#include "lib/config/bind.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <set>

#include "lib/config/describe.h"

namespace buttress {
namespace {

template <class T>
bool ParseWhole(const std::string& text, T& value) {
  T parsed{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  if (error != std::errc() || end != text.data() + text.size()) return false;
  value = parsed;
  return true;
}

// "run: {optim: {lr: ...}}" for "run.optim.lr".
std::string Nested(const std::string& key) {
  std::string text, closing;
  for (const char c : key) {
    text += c == '.' ? std::string(": {") : std::string(1, c);
    if (c == '.') closing += '}';
  }
  return text + ": ..." + closing;
}

}  // namespace

bool FromText(const std::string& text, bool& value) {
  if (text != "true" && text != "false") return false;
  value = text == "true";
  return true;
}

bool FromText(const std::string& text, std::int64_t& value) { return ParseWhole(text, value); }

bool FromText(const std::string& text, std::uint64_t& value) { return ParseWhole(text, value); }

bool FromText(const std::string& text, double& value) { return ParseWhole(text, value); }

bool FromText(const std::string& text, std::string& value) {
  value = text;
  return true;
}

std::string ToText(bool value) { return value ? "true" : "false"; }

std::string ToText(std::int64_t value) { return std::to_string(value); }

std::string ToText(std::uint64_t value) { return std::to_string(value); }

std::string ToText(double value) {
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof text, value);
  return std::string(text, end);
}

std::string ToText(const std::string& value) { return value; }

void YamlBinder::CheckUnknownKeys() {
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

void YamlBinder::BindMap(const char* name, const YAML::Node& child,
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

void YamlBinder::Error(const YAML::Node& at, const std::string& name, const std::string& what) {
  errors_.push_back(Place(at) + ": " + Path(name) + ": " + what);
}

std::string YamlBinder::Place(const YAML::Node& at) const {
  const YAML::Mark mark = at.Mark();
  // A node created by --set has no line in the file.
  return mark.is_null() ? "--set" : file_ + ":" + std::to_string(mark.line + 1);
}

std::string YamlBinder::Text(const YAML::Node& node) {
  if (node.IsScalar()) return node.Scalar();
  YAML::Emitter out;
  out << YAML::Flow << node;
  std::string text = out.c_str();
  if (text.size() > 40) text = text.substr(0, 40) + "...";
  return text;
}

}  // namespace buttress
