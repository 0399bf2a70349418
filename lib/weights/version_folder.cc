#include "lib/weights/version_folder.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include "lib/base/os/file.h"
#include "lib/base/report/log.h"
#include "lib/base/text/digest.h"
#include "lib/base/thread/parallel.h"
#include "lib/weights/manifest.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxManifestBytes = 100'000'000;

// Parses a name like "v3-14"; nullopt for any other name.
std::optional<PolicyVersion> ParseFolderName(const std::string& name) {
  if (name.empty() || name.front() != 'v') return std::nullopt;
  PolicyVersion version;
  const char* const end = name.data() + name.size();
  const auto epoch = std::from_chars(name.data() + 1, end, version.learner_epoch);
  if (epoch.ec != std::errc() || epoch.ptr == end || *epoch.ptr != '-') return std::nullopt;
  const auto step = std::from_chars(epoch.ptr + 1, end, version.step);
  if (step.ec != std::errc() || step.ptr != end) return std::nullopt;
  return version;
}

// Version folders with and without a manifest, oldest first.
std::vector<PolicyVersion> ListFolders(const std::string& folder) {
  std::vector<PolicyVersion> versions;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (auto version = ParseFolderName(it->path().filename().string()))
      versions.push_back(*version);
  }
  std::sort(versions.begin(), versions.end(), OlderThan);
  return versions;
}

bool Exists(const std::string& folder, const PolicyVersion& version) {
  std::error_code error;
  return fs::exists(JoinPath(VersionFolder(folder, version), kManifestName), error);
}

// Deletes the manifest first, so that no reader finds a version with missing files.
void DeleteVersion(const std::string& version_folder) {
  std::error_code error;
  fs::remove(JoinPath(version_folder, kManifestName), error);
  if (!error) fs::remove_all(version_folder, error);
  if (error)
    Log(kWarn, "cannot delete old weights",
        {{"folder", version_folder}, {"error", error.message()}});
}

}  // namespace

std::string VersionFolder(const std::string& folder, const PolicyVersion& version) {
  return JoinPath(folder, fmt::format("v{}-{}", version.learner_epoch, version.step));
}

Result<WeightManifest> ReadManifest(const std::string& version_folder) {
  const std::string path = JoinPath(version_folder, kManifestName);
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxManifestBytes));
  Result<WeightManifest> manifest = ManifestFromJson(text);
  if (!manifest.ok()) return manifest.status().Annotate(path);
  return manifest;
}

Status WriteManifest(const std::string& version_folder, const WeightManifest& manifest) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::string json, ManifestToJson(manifest));
  BUTTRESS_ASSIGN_OR_RETURN(auto file, PartFile::Create(JoinPath(version_folder, kManifestName)));
  BUTTRESS_RETURN_IF_ERROR(file->Append(json));
  return file->Commit(Durability::kPageCache);
}

Status VerifyFiles(const std::string& version_folder, const WeightManifest& manifest) {
  for (const WeightFile& file : manifest.files) {
    const std::string path = JoinPath(version_folder, file.name);
    std::error_code error;
    const std::uintmax_t bytes = fs::file_size(path, error);
    if (error == std::errc::no_such_file_or_directory) return NotFound(path + ": no such file");
    if (error) return Unavailable(path + ": " + error.message());
    if (bytes != file.bytes) {
      return DataLoss(fmt::format("{} has {} bytes; the manifest of version {} says {}", path,
                                  bytes, ToString(manifest.version), file.bytes));
    }
  }
  return RunInParallel(manifest.files.size(), [&](std::size_t i) -> Status {
    const WeightFile& file = manifest.files[i];
    const std::string path = JoinPath(version_folder, file.name);
    BUTTRESS_ASSIGN_OR_RETURN(const std::string sha256, Sha256OfFile(path));
    if (sha256 == file.sha256) return OkStatus();
    return DataLoss(fmt::format("{} has SHA-256 {}; the manifest of version {} says {}", path,
                                ToHex(sha256), ToString(manifest.version), ToHex(file.sha256)));
  });
}

Status VerifyNewest(const std::string& folder) {
  const std::vector<PolicyVersion> versions = ListVersions(folder);
  if (versions.empty()) return OkStatus();
  const std::string newest = VersionFolder(folder, versions.back());
  BUTTRESS_ASSIGN_OR_RETURN(const WeightManifest manifest, ReadManifest(newest));
  return VerifyFiles(newest, manifest);
}

std::vector<PolicyVersion> ListVersions(const std::string& folder) {
  std::vector<PolicyVersion> versions = ListFolders(folder);
  std::erase_if(versions, [&](const PolicyVersion& version) { return !Exists(folder, version); });
  return versions;
}

void DeleteVersionsOfOtherRuns(const std::string& folder, const std::string& run_id) {
  const std::vector<PolicyVersion> versions = ListVersions(folder);
  const bool foreign = std::ranges::any_of(versions, [&](const PolicyVersion& version) {
    const auto manifest = ReadManifest(VersionFolder(folder, version));
    return manifest.ok() && manifest->run_id != run_id;
  });
  if (!foreign) return;
  Log(kWarn, "weights of another run are deleted", {{"folder", folder}, {"run_id", run_id}});
  for (const PolicyVersion& version : ListFolders(folder))
    DeleteVersion(VersionFolder(folder, version));
}

void DeleteOldVersions(const std::string& folder, int keep) {
  const std::vector<PolicyVersion> versions = ListVersions(folder);
  if (versions.empty()) return;
  const std::size_t kept = std::min(versions.size(), static_cast<std::size_t>(std::max(keep, 1)));
  const PolicyVersion& oldest_kept = versions[versions.size() - kept];
  for (const PolicyVersion& version : ListFolders(folder)) {
    const bool incomplete = OlderThan(version, versions.back()) && !Exists(folder, version);
    if (OlderThan(version, oldest_kept) || incomplete)
      DeleteVersion(VersionFolder(folder, version));
  }
}

}  // namespace buttress
