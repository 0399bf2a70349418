#include <filesystem>

#include "lib/base/file.h"
#include "lib/weights/transport.h"
#include "lib/weights/version_folder.h"

namespace buttress {
namespace {

constexpr char kWeightsName[] = "model.safetensors";

class FolderPublisher : public WeightPublisher {
 public:
  explicit FolderPublisher(WeightStoreOptions options)
      : options_(std::move(options)),
        durability_(options_.durable ? Durability::kFsync : Durability::kPageCache) {}

  Status Begin(const PolicyVersion& version,
               const std::vector<SafetensorsWriter::Declared>& table) override {
    writer_.reset();
    folder_ = VersionFolder(options_.folder, version);
    std::error_code error;
    if (std::filesystem::exists(JoinPath(folder_, kManifestName), error)) {
      return AlreadyExists("version " + ToString(version) + " is published already in " + folder_);
    }
    std::filesystem::remove_all(folder_, error);
    if (error)
      return Unavailable("cannot remove what a broken attempt left in " + folder_ + ": " +
                         error.message());
    BUTTRESS_RETURN_IF_ERROR(MakeFolders(folder_));
    BUTTRESS_ASSIGN_OR_RETURN(writer_,
                              SafetensorsWriter::Create(JoinPath(folder_, kWeightsName), table,
                                                        {{"format", "pt"}}, durability_));
    manifest_ = WeightManifest();
    manifest_.version = version;
    table_ = table;
    offset_ = writer_->data_begin();
    return OkStatus();
  }

  Status Put(std::string_view name, std::string_view bytes) override {
    if (writer_ == nullptr) return FailedPrecondition("Put before Begin");
    const std::size_t next = manifest_.tensors.size();
    if (next == table_.size() || table_[next].name != name) {
      return InvalidArgument(
          "tensor '" + std::string(name) + "' is not the next of the table" +
          (next < table_.size() ? ", '" + table_[next].name + "' is" : ", which is complete"));
    }
    BUTTRESS_RETURN_IF_ERROR(writer_->Append(bytes));
    const std::uint64_t begin = offset_;
    offset_ += bytes.size();
    manifest_.tensors.push_back(
        {table_[next].name, table_[next].dtype, table_[next].shape, kWeightsName, begin, offset_});
    return OkStatus();
  }

  Result<WeightManifest> Commit(std::vector<Canary> canaries) override {
    if (writer_ == nullptr) return FailedPrecondition("Commit before Begin");
    BUTTRESS_ASSIGN_OR_RETURN(const std::string sha256, writer_->Finish());
    writer_.reset();
    manifest_.files = {{kWeightsName, offset_, sha256}};
    manifest_.version.digest = ManifestDigest(manifest_);
    manifest_.folder = folder_;
    manifest_.sources = options_.sources;
    manifest_.canaries = std::move(canaries);
    BUTTRESS_RETURN_IF_ERROR(WriteManifest(folder_, manifest_, durability_));
    if (options_.durable) BUTTRESS_RETURN_IF_ERROR(SyncFolder(options_.folder));
    DeleteOldVersions(options_.folder, options_.keep);
    return manifest_;
  }

 private:
  const WeightStoreOptions options_;
  const Durability durability_;
  std::string folder_;
  std::unique_ptr<SafetensorsWriter> writer_;
  std::vector<SafetensorsWriter::Declared> table_;
  std::uint64_t offset_ = 0;
  WeightManifest manifest_;
};

}  // namespace

Result<std::unique_ptr<WeightPublisher>> MakeFolderPublisher(WeightStoreOptions options) {
  if (options.keep < 1)
    return InvalidArgument("at least one version is kept, not " + std::to_string(options.keep));
  BUTTRESS_RETURN_IF_ERROR(MakeFolders(options.folder));
  std::error_code error;
  // Absolute, because workers with another working folder read it.
  options.folder = std::filesystem::absolute(options.folder, error).lexically_normal().string();
  if (error) return Unavailable("cannot resolve " + options.folder + ": " + error.message());
  return std::unique_ptr<WeightPublisher>(std::make_unique<FolderPublisher>(std::move(options)));
}

}  // namespace buttress
