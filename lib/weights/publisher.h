// Publishes the weights of a policy version as a folder.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/weights/manifest.h"
#include "lib/weights/version_folder.h"
#include "lib/weights/weight_files.h"

namespace buttress {

// Makes one version at a time: Begin, the files by WriteWeightFiles, which other processes may call
// too, and Commit. A Begin without a Commit before it discards the version that was begun. Not
// thread-safe.
class WeightPublisher {
 public:
  // Creates the store's folder. kInvalidArgument if options.keep is below 1.
  static Result<std::unique_ptr<WeightPublisher>> Create(WeightStoreOptions options);

  // Makes an empty folder for a version of `files`. kAlreadyExists if the version was published.
  Status Begin(const PolicyVersion& version, std::vector<PlannedFile> files);

  // Of the version that was begun.
  const std::string& folder() const { return folder_; }

  // Makes the version visible by renaming its manifest, then deletes the oldest versions beyond
  // options.keep. `written` are the files of Begin, in any order. Does not sync: the learner
  // publishes a version again that a crash of the machine has lost. kInvalidArgument if a file is
  // missing or has another size.
  Result<WeightManifest> Commit(const std::vector<WeightFile>& written,
                                std::vector<Canary> canaries = {});

 private:
  explicit WeightPublisher(WeightStoreOptions options);

  Status AddCompanion(const std::string& name, const std::string& bytes, WeightManifest& manifest);

  const WeightStoreOptions options_;
  PolicyVersion version_;           // that was begun
  std::string folder_;              // likewise; empty between versions
  std::vector<PlannedFile> files_;  // likewise
};

}  // namespace buttress
