#include "lib/verify/remote/python_modules.h"

#include <re2/re2.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>
#include <sstream>

#include "lib/base/os/file.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxSourceBytes = 8 << 20;

// "from MODULE import NAMES", with or without parentheses, or "import MODULES".
const RE2& Imports() {
  static const RE2 kImports(
      R"((?m)(?:^|[:;])[ \t]*(?:from[ \t]+([^\s(]+)[ \t]+import[ \t]*(\([^)]*\)|[^\n;]*))"
      R"(|import[ \t]+([^\n;]*)))",
      RE2::Latin1);
  return kImports;
}

// The names before "as" of "a, b as c".
std::vector<std::string> ImportedNames(std::string list) {
  RE2::GlobalReplace(&list, "#[^\n]*|[()]", "");
  std::vector<std::string> names;
  std::istringstream items(list);
  for (std::string item; std::getline(items, item, ',');) {
    std::istringstream words(item);
    if (std::string name; words >> name) names.push_back(name);
  }
  return names;
}

class Search {
 public:
  explicit Search(const fs::path& file) : root_(file.parent_path()) { Add(file); }

  std::vector<std::string> Run() {
    for (std::size_t i = 0; i < found_.size() && found_.size() < kMostModules; ++i) Read(found_[i]);
    std::sort(found_.begin() + 1, found_.end());
    return std::move(found_);
  }

 private:
  void Add(const fs::path& file) {
    if (found_.size() < kMostModules && known_.insert(file.string()).second)
      found_.push_back(file.string());
  }

  void Read(const std::string& file) {
    const auto source = ReadFile(file, kMaxSourceBytes);
    if (!source.ok()) return;
    std::string text = *source;
    RE2::GlobalReplace(&text, "\\\\\r?\n", " ");
    re2::StringPiece rest(text);
    std::string from, names, modules;
    const fs::path folder = fs::path(file).parent_path();
    while (RE2::FindAndConsume(&rest, Imports(), &from, &names, &modules)) {
      for (const std::string& module : ImportedNames(modules)) Resolve(module, folder);
      if (from.empty()) continue;
      Resolve(from, folder);
      const std::string prefix = from.ends_with('.') ? from : from + ".";
      for (const std::string& name : ImportedNames(names)) Resolve(prefix + name, folder);
    }
  }

  // Adds the file of a module, and those of the packages around it. `folder` is that of the file
  // that imports it, where a name with dots in front begins.
  void Resolve(const std::string& module, fs::path folder) {
    const std::size_t dots = std::min(module.find_first_not_of('.'), module.size());
    if (dots == 0) folder = root_;
    for (std::size_t i = 1; i < dots; ++i) folder = folder.parent_path();
    if (!folder.string().starts_with(root_.string())) return;
    std::error_code error;
    std::istringstream parts(module.substr(dots));
    for (std::string part; std::getline(parts, part, '.');) {
      folder /= part;
      const fs::path package = folder / "__init__.py";
      const fs::path alone = folder.string() + ".py";
      if (fs::is_regular_file(package, error)) {
        Add(package);
      } else if (fs::is_regular_file(alone, error)) {
        Add(alone);
      }
    }
  }

  const fs::path root_;
  std::vector<std::string> found_;
  std::set<std::string> known_;
};

}  // namespace

std::vector<std::string> LocalModules(const std::string& file) {
  return Search(fs::absolute(file).lexically_normal()).Run();
}

}  // namespace buttress
