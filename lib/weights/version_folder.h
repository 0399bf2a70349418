// <folder>/v<learner_epoch>-<step>/ of every version kept; a version exists once its manifest.json
// does.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"
#include "lib/weights/manifest.h"
#include "lib/weights/part_file.h"

namespace buttress {

inline constexpr char kManifestName[] = "manifest.json";

// <folder>/v<learner_epoch>-<step>.
std::string VersionFolder(const std::string& folder, const PolicyVersion& version);

// The manifest in a version's folder: kNotFound if it does not exist (yet), kDataLoss if it is not
// one.
Result<WeightManifest> ReadManifest(const std::string& version_folder);

// Names the version: from now on it exists. REQUIRES: its files are complete (and durable where
// that is wanted).
Status WriteManifest(const std::string& version_folder, const WeightManifest& manifest,
                     Durability durability);

// Every file of `manifest` in `version_folder` has its size and SHA-256. kDataLoss names the file;
// kNotFound if one is missing.
Status VerifyFiles(const std::string& version_folder, const WeightManifest& manifest);

// Versions that exist, oldest first (digests empty).
std::vector<PolicyVersion> ListVersions(const std::string& folder);

// Deletes the oldest versions until `keep` (at least 1) are left, and what broken attempts older
// than the newest version have left. The newest version always stays.
void DeleteOldVersions(const std::string& folder, int keep);

}  // namespace buttress
