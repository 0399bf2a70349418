#include "cli/import/settings.h"

#include <fmt/core.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <optional>
#include <sstream>

namespace buttress {
namespace {

constexpr int kMostReferences = 8;  // ${a} that stands for ${b} and so on
constexpr int kMostLevels = 16;

std::string TextOf(const YAML::Node& node) {
  if (node.IsScalar()) return node.Scalar();
  if (node.IsNull()) return "null";
  YAML::Emitter out;
  out.SetSeqFormat(YAML::Flow);
  out << node;
  return out.c_str();
}

void Flatten(const YAML::Node& node, const std::string& path, int level, FlatSettings& flat) {
  if (!node.IsMap() || level == kMostLevels) {
    flat[path] = TextOf(node);
    return;
  }
  for (const auto& entry : node) {
    const std::string name = entry.first.as<std::string>();
    Flatten(entry.second, path.empty() ? name : path + "." + name, level + 1, flat);
  }
}

void Resolve(FlatSettings& flat) {
  for (int round = 0; round < kMostReferences; ++round) {
    for (auto& [key, value] : flat) {
      if (!value.starts_with("${") || !value.ends_with("}")) continue;
      const auto found = flat.find(value.substr(2, value.size() - 3));
      if (found != flat.end()) value = found->second;
    }
  }
}

// The translation of `value`, if there is one.
std::optional<std::string> Translate(const ImportRow& row, const std::string& value) {
  if (row.choices.empty()) return value;
  std::istringstream choices{std::string(row.choices)};
  for (std::string choice; choices >> choice;) {
    const std::size_t equals = choice.find('=');
    if (choice.substr(0, equals) == value) return choice.substr(equals + 1);
  }
  return std::nullopt;
}

void Carry(const ImportRow& row, const std::string& value, bool is_default, Imported& result) {
  if (value == "null" || value == "None") return;
  const std::string what = fmt::format("{}: {}", row.theirs, value);
  if (row.ours.empty()) {
    if (!is_default && !row.remark.empty())
      result.notes.push_back(fmt::format("not carried: {}: {}", what, row.remark));
    return;
  }
  const std::optional<std::string> translated = Translate(row, value);
  if (!translated) {
    result.notes.push_back(fmt::format(
        "not carried: {}: {}", what, row.remark.empty() ? "there is no such choice" : row.remark));
    return;
  }
  std::istringstream keys{std::string(row.ours)};
  for (std::string key; keys >> key;) result.ours[key] = *translated;
  if (!is_default && !row.remark.empty() && row.choices.empty())
    result.notes.push_back(fmt::format("carried: {}: {}", what, row.remark));
}

const ImportRow* FindRow(const ImportSource& source, std::string_view key) {
  const auto found = std::ranges::find(source.rows, key, &ImportRow::theirs);
  return found == source.rows.end() ? nullptr : &*found;
}

}  // namespace

Result<FlatSettings> ReadForeignSettings(const std::string& text,
                                         const std::vector<std::string>& overrides) {
  FlatSettings flat;
  try {
    const YAML::Node node = YAML::Load(text);
    if (!node.IsMap()) return InvalidArgument("expected a mapping of settings");
    Flatten(node, "", 0, flat);
    for (const std::string& word : overrides) {
      const std::size_t equals = word.find('=');
      if (equals == std::string::npos) return InvalidArgument("'" + word + "': expected KEY=VALUE");
      const std::string key = word.substr(word.find_first_not_of('+'), std::string::npos);
      Flatten(YAML::Load(word.substr(equals + 1)), key.substr(0, key.find('=')), 0, flat);
    }
  } catch (const YAML::Exception& error) {
    return InvalidArgument(error.what());
  }
  Resolve(flat);
  return flat;
}

void KeepCheckpoints(std::string_view theirs, long kept, Imported& result) {
  constexpr long kFewest = 2;  // so that a damaged one has one before it
  result.ours["run.checkpoints.keep_last"] = std::to_string(std::max(kept, kFewest));
  if (kept < kFewest)
    result.notes.push_back(
        fmt::format("nearest: {}: {} became run.checkpoints.keep_last {}", theirs, kept, kFewest));
}

Imported Import(const ImportSource& source, const FlatSettings& theirs) {
  FlatSettings all;
  Imported result;
  for (const ImportRow& row : source.rows) {
    if (!row.by_default.empty()) all[std::string(row.theirs)] = row.by_default;
  }
  for (const auto& [key, value] : theirs) {
    if (value != "null") all[key] = value;
    if (FindRow(source, key) == nullptr && !key.empty())
      result.notes.push_back(
          fmt::format("not carried: {}: {}: this setting is not known here", key, value));
  }
  // In the order of the table, so that a later row refines an earlier one.
  for (const ImportRow& row : source.rows) {
    const auto found = all.find(std::string(row.theirs));
    if (found != all.end()) Carry(row, found->second, !theirs.contains(found->first), result);
  }
  source.combine(all, result);
  return result;
}

std::string PrintImported(const FlatSettings& ours) {
  YAML::Node root(YAML::NodeType::Map);
  for (const auto& [key, value] : ours) {
    YAML::Node at = root;
    std::istringstream parts(key);
    std::string name;
    std::getline(parts, name, '.');
    for (std::string next; std::getline(parts, next, '.'); name = next) at.reset(at[name]);
    at[name] = value;
  }
  YAML::Emitter out;
  out << root;
  return std::string(out.c_str()) + "\n";
}

}  // namespace buttress
