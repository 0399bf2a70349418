#include "tests/simulation/ledger/ledger_faults.h"

#include <cstring>
#include <filesystem>
#include <system_error>

#include "lib/base/os/file.h"
#include "lib/config/load.h"
#include "lib/config/run_folder.h"
#include "lib/ledger/checked_files.h"
#include "tests/simulation/plants.h"

namespace buttress::simulation {
namespace {

constexpr std::uint64_t kPage = kPageBytes;

std::uint64_t PageOf(std::uint64_t at) { return at / kPage * kPage; }

void FlipIn(std::string& content, std::uint64_t at) {
  if (at < content.size()) content[at] = static_cast<char>(content[at] ^ 0x10);
}

// Planted: the damage has the checksum of a page that was written so.
void ForgeSeal(std::string& content, std::uint64_t at) {
  const std::uint64_t begin = PageOf(at);
  if (begin + kPage > content.size()) return;
  const std::uint32_t seal =
      SealOf(content.data() + begin, static_cast<std::uint32_t>(begin / kPage + 1));
  std::memcpy(content.data() + begin + kPage - kSealBytes, &seal, kSealBytes);
}

}  // namespace

bool LedgerFlips::Flip(FolderDisk& disk, bool log, std::uint64_t at) {
  const std::string database = disk.folder() + "/ledger.db";
  auto& files = disk.disk().files();
  auto file = files.find(database + "-wal");
  const bool has_log = file != files.end() && !file->second.seen.empty();
  if (!log || !has_log) file = files.find(database);
  if (file == files.end() || file->second.seen.empty()) return false;
  FlipAt(disk, file->first, at % file->second.seen.size());
  return true;
}

bool LedgerFlips::FlipArchive(FolderDisk& disk, std::uint64_t which, std::uint64_t at) {
  std::vector<std::string> paths;
  for (const auto& [path, file] : disk.disk().files()) {
    if (FolderDisk::IsArchive(path) && path.ends_with(".db") && !file.seen.empty())
      paths.push_back(path);
  }
  if (paths.empty()) return false;
  const std::string& path = paths[which % paths.size()];
  FlipAt(disk, path, at % disk.disk().files().at(path).seen.size());
  disk.ShowFile(path);
  return true;
}

void LedgerFlips::FlipAt(FolderDisk& disk, const std::string& path, std::uint64_t at) {
  SimulatedDisk::File& file = disk.disk().files().at(path);
  for (std::string* content : {&file.seen, &file.durable}) {
    FlipIn(*content, at);
    if (Planted(Plant::kLedgerDamageUnseen) && path == disk.folder() + "/ledger.db")
      ForgeSeal(*content, at);
  }
  flipped_.push_back({path, at, file.seen.substr(PageOf(at), kPage)});
}

bool LedgerFlips::IsThere(FolderDisk& disk, const Flipped& flipped) {
  const auto file = disk.disk().files().find(flipped.path);
  return file != disk.disk().files().end() && flipped.at < file->second.seen.size() &&
         file->second.seen.substr(PageOf(flipped.at), kPage) == flipped.around;
}

std::set<std::string> LedgerFlips::Damaged(FolderDisk& disk) const {
  std::set<std::string> paths;
  for (const Flipped& flipped : flipped_)
    if (IsThere(disk, flipped)) paths.insert(flipped.path);
  return paths;
}

void LedgerFlips::Mend(FolderDisk& disk) {
  for (const Flipped& flipped : flipped_) {
    if (!IsThere(disk, flipped)) continue;
    SimulatedDisk::File& file = disk.disk().files().at(flipped.path);
    FlipIn(file.seen, flipped.at);
    FlipIn(file.durable, flipped.at);
    if (FolderDisk::IsArchive(flipped.path)) disk.ShowFile(flipped.path);
  }
  flipped_.clear();
}

Result<DroppedGroup> DropByOperator(const std::string& folder, std::uint64_t group_id) {
  RunConfig config;
  config.run.model.path = "model";
  config.run.data.prompts = "prompts.jsonl";
  config.local.out = folder;
  BUTTRESS_RETURN_IF_ERROR(WriteFileAtomic(StoredConfigPath(folder), PrintRunConfig(config)));
  // The command looks for the database, whose content is on the simulated disk.
  const std::string database = folder + "/ledger.db";
  BUTTRESS_RETURN_IF_ERROR(WriteFileAtomic(database, ""));
  auto dropped = DropGroup({folder, "", group_id, "simulated"});
  std::error_code ignored;
  std::filesystem::remove(database, ignored);
  return dropped;
}

}  // namespace buttress::simulation
