#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <tuple>

#include "cli/explain/step_source.h"
#include "lib/base/os/file.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;

bool IsSqlite(const std::string& path) {
  std::array<char, 16> head{};
  std::ifstream(path, std::ios::binary).read(head.data(), head.size());
  return std::string_view(head.data(), 15) == "SQLite format 3";
}

// Returns the first number in a file name, so that 10.jsonl sorts after 9.jsonl.
std::uint64_t NumberIn(const std::string& name) {
  std::uint64_t number = 0;
  bool any = false;
  for (const char c : name) {
    const bool digit = c >= '0' && c <= '9';
    if (any && !digit) break;
    if (digit && number < UINT64_MAX / 16)
      number = number * 10 + static_cast<std::uint64_t>(c - '0');
    any = any || digit;
  }
  return number;
}

Result<std::vector<std::string>> FilesIn(const std::string& folder, std::string_view ending) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (entry->path().extension() == ending) files.push_back(entry->path().string());
  }
  if (error) return InvalidArgument(folder + ": " + error.message());
  const auto order = [](const std::string& path) {
    const std::string name = fs::path(path).filename().string();
    return std::tuple(NumberIn(name), name);
  };
  std::ranges::sort(files, {}, order);
  return files;
}

Result<std::unique_ptr<StepSource>> OpenFolder(const std::string& folder,
                                               const StepSourceOptions& options) {
  std::error_code ignored;
  if (!RunFolderOf(folder).empty()) return OpenLedgerSteps(JoinPath(folder, "ledger.db"));
  // TRL writes to <output_dir>/completions.
  for (const std::string& place : {folder, JoinPath(folder, "completions")}) {
    if (!fs::is_directory(place, ignored)) continue;
    if (fs::exists(JoinPath(place, "state.json"), ignored))  // of save_to_disk
      return OpenDumpSteps({place}, options);
    // One kind of file only: a folder may have the same rows in two.
    for (const char* ending : {".jsonl", ".parquet", ".arrow", ".csv"}) {
      BUTTRESS_ASSIGN_OR_RETURN(std::vector<std::string> files, FilesIn(place, ending));
      if (!files.empty()) return OpenDumpSteps(std::move(files), options);
    }
  }
  return InvalidArgument(folder +
                         " has neither ledger.db nor *.jsonl, *.parquet, *.arrow or *.csv; name a "
                         "run folder, or a folder that verl's rollout_data_dir or TRL's "
                         "log_completions wrote");
}

}  // namespace

std::string RunFolderOf(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored))
    return fs::exists(JoinPath(path, "ledger.db"), ignored) ? path : "";
  if (!IsSqlite(path)) return "";
  const std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

Result<std::unique_ptr<StepSource>> OpenSteps(const std::string& path,
                                              const StepSourceOptions& options) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return OpenFolder(path, options);
  if (!fs::exists(path, ignored)) return InvalidArgument(path + ": no such file or folder");
  if (IsSqlite(path)) return OpenLedgerSteps(path);
  return OpenDumpSteps({path}, options);
}

}  // namespace buttress
