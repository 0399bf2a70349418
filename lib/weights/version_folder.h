// The folder of a store of policy versions: <folder>/v<learner_epoch>-<step>/ for each version. A
// version exists when its manifest.json does.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/weights/manifest.h"
#include "lib/weights/part_file.h"

namespace buttress {

inline constexpr char kManifestName[] = "manifest.json";

struct WeightStoreOptions {
  std::string folder;
  int keep = 3;                           // versions kept
  std::vector<std::string> sources = {};  // written into the manifests of published versions
  std::string run_id = {};                // likewise
  std::map<std::string, std::string> companions = {};  // other files of every version, by name
};

// <folder>/v<learner_epoch>-<step>.
std::string VersionFolder(const std::string& folder, const PolicyVersion& version);

// Reads the manifest of a version. kNotFound if the version does not exist, kDataLoss if the
// manifest is malformed or fails CheckManifest.
Result<WeightManifest> ReadManifest(const std::string& version_folder);

// Makes a version exist by writing its manifest, without a sync. REQUIRES: its files are complete.
Status WriteManifest(const std::string& version_folder, const WeightManifest& manifest);

// Checks that every file of `manifest` in `version_folder` has its size and SHA-256, several files
// at once. kDataLoss names the first that does not; kNotFound if a file is missing.
Status VerifyFiles(const std::string& version_folder, const WeightManifest& manifest);

// VerifyFiles of the newest version in `folder`; OkStatus if there is none.
Status VerifyNewest(const std::string& folder);

// Lists the versions that exist, oldest first. Their digests are empty.
std::vector<PolicyVersion> ListVersions(const std::string& folder);

// Deletes all versions if one of them was made by another run than `run_id`. Their numbers say
// nothing about those of this run.
void DeleteVersionsOfOtherRuns(const std::string& folder, const std::string& run_id);

// Deletes the oldest versions until `keep` are left, and incomplete versions that are older than
// the newest. The newest version is never deleted.
void DeleteOldVersions(const std::string& folder, int keep);

}  // namespace buttress
