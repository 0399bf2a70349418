#include "lib/weights/publisher.h"

#include <fmt/core.h>

#include <filesystem>

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

Status WeightPublisher::Begin(const PolicyVersion& version,
                              const std::vector<SafetensorsWriter::Declared>& table) {
  writer_.reset();
  folder_ = VersionFolder(options_.folder, version);
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
  BUTTRESS_RETURN_IF_ERROR(MakeFolders(folder_));
  BUTTRESS_ASSIGN_OR_RETURN(
      writer_, SafetensorsWriter::Create(JoinPath(folder_, options_.weights_name), table,
                                         {{"format", "pt"}}, Durability::kPageCache));
  manifest_ = WeightManifest();
  manifest_.version = version;
  table_ = table;
  offset_ = writer_->data_begin();
  return OkStatus();
}

Status WeightPublisher::Put(std::string_view name, std::string_view bytes) {
  if (writer_ == nullptr) return FailedPrecondition("Put was called without Begin");
  const std::size_t next = manifest_.tensors.size();
  if (next == table_.size())
    return InvalidArgument(fmt::format("tensor '{}' comes after the last of the table", name));
  if (table_[next].name != name) {
    return InvalidArgument(
        fmt::format("tensor '{}' comes where the table has '{}'", name, table_[next].name));
  }
  BUTTRESS_RETURN_IF_ERROR(writer_->Append(bytes));
  const std::uint64_t begin = offset_;
  offset_ += bytes.size();
  manifest_.tensors.push_back({table_[next].name, table_[next].dtype, table_[next].shape,
                               options_.weights_name, begin, offset_});
  return OkStatus();
}

Result<WeightManifest> WeightPublisher::Commit(std::vector<Canary> canaries) {
  if (writer_ == nullptr) return FailedPrecondition("Commit was called without Begin");
  BUTTRESS_ASSIGN_OR_RETURN(const std::string sha256, writer_->Finish());
  writer_.reset();
  manifest_.files = {{options_.weights_name, offset_, sha256}};
  for (const auto& [name, bytes] : options_.companions) {
    BUTTRESS_RETURN_IF_ERROR(WriteFileAtomic(JoinPath(folder_, name), bytes));
    manifest_.files.push_back({name, bytes.size(), Sha256Of(bytes)});
  }
  manifest_.version.digest = ManifestDigest(manifest_);
  manifest_.folder = folder_;
  manifest_.sources = options_.sources;
  manifest_.run_id = options_.run_id;
  manifest_.canaries = std::move(canaries);
  BUTTRESS_RETURN_IF_ERROR(WriteManifest(folder_, manifest_));
  DeleteOldVersions(options_.folder, options_.keep);
  return manifest_;
}

}  // namespace buttress
