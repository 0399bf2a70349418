#include "lib/weights/publisher.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "lib/base/os/file.h"
#include "lib/base/text/digest.h"

namespace buttress {

Result<std::unique_ptr<WeightPublisher>> WeightPublisher::Create(WeightStoreOptions options) {
  if (options.keep < 1)
    return InvalidArgument(fmt::format("keep = {} versions; expected at least 1", options.keep));
  BUTTRESS_RETURN_IF_ERROR(MakeFolders(options.folder));
  std::error_code error;
  // Workers with another working folder read the path.
  options.folder = std::filesystem::absolute(options.folder, error).lexically_normal().string();
  if (error) return Unavailable("cannot resolve " + options.folder + ": " + error.message());
  DeleteVersionsOfOtherRuns(options.folder, options.run_id);
  return std::unique_ptr<WeightPublisher>(new WeightPublisher(std::move(options)));
}

WeightPublisher::WeightPublisher(WeightStoreOptions options) : options_(std::move(options)) {}

Status WeightPublisher::Begin(const PolicyVersion& version, std::vector<PlannedFile> files) {
  folder_ = VersionFolder(options_.folder, version);
  version_ = version;
  files_ = std::move(files);
  std::error_code error;
  if (std::filesystem::exists(JoinPath(folder_, kManifestName), error)) {
    return AlreadyExists(
        fmt::format("version {} is already published in {}", ToString(version), folder_));
  }
  std::filesystem::remove_all(folder_, error);
  if (error) {
    return Unavailable(
        fmt::format("cannot remove the incomplete version in {}: {}", folder_, error.message()));
  }
  std::filesystem::create_directory(folder_, error);
  return error ? Unavailable(fmt::format("cannot create {}: {}", folder_, error.message()))
               : OkStatus();
}

Status WeightPublisher::AddCompanion(const std::string& name, const std::string& bytes,
                                     WeightManifest& manifest) {
  manifest.files.push_back({name, bytes.size(), Sha256Of(bytes)});
  return WriteFileAtomic(JoinPath(folder_, name), bytes);
}

Result<WeightManifest> WeightPublisher::Commit(const std::vector<WeightFile>& written,
                                               std::vector<Canary> canaries) {
  if (folder_.empty()) return FailedPrecondition("Commit was called without Begin");
  WeightManifest manifest;
  manifest.version = version_;
  for (const PlannedFile& planned : files_) {
    const auto file = std::ranges::find(written, planned.name, &WeightFile::name);
    if (file == written.end() || file->bytes < planned.data_bytes())
      return InvalidArgument(JoinPath(folder_, planned.name) + " was not written as planned");
    manifest.files.push_back(*file);
    std::uint64_t begin = file->bytes - planned.data_bytes();  // behind the header
    for (const SafetensorsWriter::Declared& tensor : planned.tensors) {
      const std::uint64_t end = begin + DataBytes(tensor);
      manifest.tensors.push_back(
          {tensor.name, tensor.dtype, tensor.shape, planned.name, begin, end});
      begin = end;
    }
  }
  if (files_.size() > 1) {
    BUTTRESS_RETURN_IF_ERROR(AddCompanion(kWeightsIndexName, WeightsIndexText(files_), manifest));
  }
  for (const auto& [name, bytes] : options_.companions)
    BUTTRESS_RETURN_IF_ERROR(AddCompanion(name, bytes, manifest));
  manifest.version.digest = ManifestDigest(manifest);
  manifest.folder = folder_;
  manifest.sources = options_.sources;
  manifest.run_id = options_.run_id;
  manifest.canaries = std::move(canaries);
  BUTTRESS_RETURN_IF_ERROR(WriteManifest(folder_, manifest));
  folder_.clear();
  DeleteOldVersions(options_.folder, options_.keep);
  return manifest;
}

}  // namespace buttress
