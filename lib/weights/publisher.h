// Publishes the weights of a policy version as a folder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/weights/manifest.h"
#include "lib/weights/safetensors.h"
#include "lib/weights/version_folder.h"

namespace buttress {

// Writes one version at a time: Begin, Put for each tensor in the order of the table, Commit. A
// Begin without a Commit before it discards the version that was begun. Not thread-safe.
class WeightPublisher {
 public:
  // Creates the store's folder. kInvalidArgument if options.keep is below 1.
  static Result<std::unique_ptr<WeightPublisher>> Create(WeightStoreOptions options);

  // Starts a version. `table` lists its tensors. kAlreadyExists if the version was published.
  Status Begin(const PolicyVersion& version, const std::vector<SafetensorsWriter::Declared>& table);

  // Writes the next tensor. kInvalidArgument if the table has another name or size next.
  Status Put(std::string_view name, std::string_view bytes);

  // Makes the version visible by renaming its manifest, then deletes the oldest versions beyond
  // options.keep. Does not sync: the learner publishes a version again that a crash of the machine
  // has lost. kInvalidArgument if tensors of the table are missing.
  Result<WeightManifest> Commit(std::vector<Canary> canaries = {});

 private:
  explicit WeightPublisher(WeightStoreOptions options);

  const WeightStoreOptions options_;
  std::string folder_;                         // of the version that was begun
  std::unique_ptr<SafetensorsWriter> writer_;  // null between versions
  std::vector<SafetensorsWriter::Declared> table_;
  std::uint64_t offset_ = 0;  // where the next tensor begins in the file
  WeightManifest manifest_;
};

}  // namespace buttress
