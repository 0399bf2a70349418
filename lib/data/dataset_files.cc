#include "lib/data/dataset_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "lib/base/os/file.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSniffedBytes = 4096;
constexpr std::int64_t kStateBytesMax = std::int64_t{16} << 20;

Result<DatasetFiles> FileOf(const std::string& path) {
  std::error_code unknown;
  if (fs::is_fifo(path, unknown)) return InvalidArgument(path + " is a FIFO; expected a file");
  std::ifstream file(path, std::ios::binary);
  if (!file) return InvalidArgument(fmt::format("cannot open {}: {}", path, std::strerror(errno)));
  std::array<char, kSniffedBytes> bytes{};
  file.read(bytes.data(), bytes.size());
  const std::string_view head(bytes.data(), static_cast<std::size_t>(file.gcount()));
  const std::string extension = fs::path(path).extension().string();
  if (head.starts_with("PAR1")) return DatasetFiles{DatasetFormat::kParquet, {path}};
  if (head.starts_with("ARROW1") || head.starts_with("\xFF\xFF\xFF\xFF"))
    return DatasetFiles{DatasetFormat::kArrow, {path}};
  if (extension == ".parquet" || extension == ".arrow")
    return InvalidArgument(fmt::format("{} does not begin as a {} file", path, extension));
  if (head.starts_with("\x1F\x8B"))
    return InvalidArgument(path + " is compressed; unpack it with gunzip");
  if (extension == ".csv") return DatasetFiles{DatasetFormat::kCsv, {path}};
  const std::size_t first = head.find_first_not_of(" \t\r\n");
  const bool array = first != std::string_view::npos && head[first] == '[';
  if (array && extension != ".jsonl") return DatasetFiles{DatasetFormat::kJsonArray, {path}};
  return DatasetFiles{DatasetFormat::kJsonl, {path}};
}

// The files in `folder` whose names begin with `prefix`, by name.
std::vector<std::string> ParquetFiles(const fs::path& folder, const std::string& prefix) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".parquet") continue;
    if (entry.path().filename().string().starts_with(prefix)) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// "train" of train-00000-of-00002.parquet.
std::string SplitOf(const std::string& path) {
  const std::string stem = fs::path(path).stem().string();
  return stem.substr(0, std::min(stem.size(), stem.find('-')));
}

// The files that save_to_disk wrote, in the order of its state.json.
Result<DatasetFiles> SavedFiles(const std::string& folder) {
  const std::string state_path = JoinPath(folder, "state.json");
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, ReadFile(state_path, kStateBytesMax));
  const auto state = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  DatasetFiles files{DatasetFormat::kArrow, {}};
  const auto listed = state.is_object() ? state.find("_data_files") : state.end();
  if (listed != state.end() && listed->is_array()) {
    for (const auto& file : *listed) {
      const auto name = file.is_object() ? file.find("filename") : file.end();
      if (name != file.end() && name->is_string())
        files.paths.push_back(
            JoinPath(folder, fs::path(name->get<std::string>()).filename().string()));
    }
  }
  if (files.paths.empty())
    return InvalidArgument(state_path + " names no files; expected _data_files of save_to_disk");
  return files;
}

Result<DatasetFiles> FolderOf(const std::string& folder) {
  if (fs::exists(JoinPath(folder, "state.json"))) return SavedFiles(folder);
  std::set<std::string> splits;
  if (fs::exists(JoinPath(folder, "dataset_dict.json"))) {
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.is_directory()) splits.insert(entry.path().filename());
  }
  DatasetFiles files{DatasetFormat::kParquet, ParquetFiles(folder, "")};
  std::string data = folder;
  if (files.paths.empty()) {
    data = JoinPath(folder, "data");
    files.paths = ParquetFiles(data, "");
  }
  for (const std::string& path : files.paths) splits.insert(SplitOf(path));
  if (splits.empty())
    return InvalidArgument(folder +
                           " is a folder without a dataset; expected Parquet files, or state.json "
                           "and Arrow files as save_to_disk writes them");
  if (splits.size() == 1 && !files.paths.empty()) return files;
  std::string names;
  for (const std::string& split : splits) names += "\n  " + JoinPath(data, split);
  return InvalidArgument(folder + " has several splits; name one:" + names);
}

}  // namespace

Result<DatasetFiles> FindDatasetFiles(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return FolderOf(path);
  if (fs::exists(path, error)) return FileOf(path);
  const fs::path prefix(path);
  const fs::path folder = prefix.has_parent_path() ? prefix.parent_path() : fs::path(".");
  DatasetFiles shards{DatasetFormat::kParquet,
                      ParquetFiles(folder, prefix.filename().string() + "-")};
  if (!shards.paths.empty()) return shards;
  return FileOf(path);
}

}  // namespace buttress
