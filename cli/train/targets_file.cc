#include "cli/train/targets_file.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "lib/base/os/file.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxAddressBytes = 4096;

void Add(const fs::path& path, const std::string& run_name, const char* role,
         nlohmann::ordered_json& targets) {
  auto address = ReadFile(path.string(), kMaxAddressBytes);
  if (!address.ok()) return;  // not bound yet
  address->erase(address->find_last_not_of(" \n") + 1);
  targets.push_back(
      {{"targets", {*address}},
       {"labels", {{"run", run_name}, {"role", role}, {"id", path.stem().string()}}}});
}

}  // namespace

Status TargetsFile::Refresh() {
  auto targets = nlohmann::ordered_json::array();
  Add(fs::path(out_) / "coordinator.metrics", run_name_, "coordinator", targets);
  for (const auto& [folder, role] : {std::pair("workers", "worker"), {"learner", "learner"}}) {
    std::vector<fs::path> files;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(fs::path(out_) / folder, error)) {
      if (entry.path().extension() == ".metrics") files.push_back(entry.path());
    }
    std::ranges::sort(files);
    for (const fs::path& file : files) Add(file, run_name_, role, targets);
  }
  const std::string text = targets.dump(2) + "\n";
  if (targets.empty() || text == written_) return OkStatus();
  BUTTRESS_RETURN_IF_ERROR(WriteFileAtomic(JoinPath(out_, "targets.json"), text));
  written_ = text;
  return OkStatus();
}

}  // namespace buttress
