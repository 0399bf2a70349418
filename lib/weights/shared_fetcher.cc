#include "lib/weights/transport.h"
#include "lib/weights/version_folder.h"

namespace buttress {
namespace {

class SharedFetcher : public WeightFetcher {
 public:
  Result<WeightManifest> Fetch(const WeightManifest& manifest) override {
    BUTTRESS_RETURN_IF_ERROR(CheckManifest(manifest));
    if (manifest.folder.empty()) {
      return FailedPrecondition("version " + ToString(manifest.version) +
                                " names no shared folder; use local.worker.weights: grpc");
    }
    BUTTRESS_RETURN_IF_ERROR(VerifyFiles(manifest.folder, manifest));
    return manifest;
  }
};

}  // namespace

std::unique_ptr<WeightFetcher> MakeSharedFetcher() { return std::make_unique<SharedFetcher>(); }

}  // namespace buttress
