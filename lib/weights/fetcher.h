// Fetches the weights of a policy version, from a shared file system or over gRPC.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "lib/base/credentials.h"
#include "lib/base/status.h"
#include "lib/weights/manifest.h"
#include "lib/weights/version_folder.h"

namespace buttress {

// Thread-safe.
class WeightFetcher {
 public:
  virtual ~WeightFetcher() = default;

  // Returns the manifest with `folder` set to a folder on this machine or on a shared file system,
  // every file of which has the size and the SHA-256 of the manifest. kDataLoss if the bytes are
  // wrong; kUnavailable if another attempt may succeed.
  virtual Result<WeightManifest> Fetch(const WeightManifest& manifest) = 0;
};

// Verifies the files of manifest.folder in place.
std::unique_ptr<WeightFetcher> MakeSharedFetcher();

// The transfer of one file from one source, successful or not.
struct WeightTransfer {
  bool from_publisher = false;  // otherwise from another worker
  std::uint64_t bytes = 0;      // received in this transfer, without those of earlier attempts
  bool whole = false;           // the file is complete and has the right SHA-256
};

struct GrpcFetcherOptions {
  std::int64_t progress_timeout_ms = 30000;  // the longest wait for the next byte of a source
  std::uint64_t seed = 0;                    // of the order of the sources; differs by process
  std::function<void(const WeightTransfer&)> on_transfer = {};  // called after each transfer
  Credentials credentials = {};
};

// Downloads from manifest.sources into the store, in the order of lib/weights/source_order.h. After
// a failure the next source, or the next attempt, continues behind the bytes received so far.
std::unique_ptr<WeightFetcher> MakeGrpcFetcher(WeightStoreOptions store,
                                               GrpcFetcherOptions options);

}  // namespace buttress
