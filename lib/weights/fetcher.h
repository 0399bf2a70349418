// Fetches the weights of a policy version, from a shared file system or over gRPC.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "lib/base/net/credentials.h"
#include "lib/base/report/status.h"
#include "lib/weights/manifest.h"
#include "lib/weights/version_folder.h"

namespace buttress {

// Thread-safe.
class WeightFetcher {
 public:
  virtual ~WeightFetcher() = default;

  // Returns the manifest with `folder` set to a folder on this machine or on a shared file system,
  // every file of which has the size and the SHA-256 of the manifest. kDataLoss if the bytes are
  // wrong; kUnavailable if another attempt may succeed; kCancelled soon after `unwanted`, if given,
  // returns true, which is asked again and again.
  virtual Result<WeightManifest> Fetch(const WeightManifest& manifest,
                                       const std::function<bool()>& unwanted = nullptr) = 0;
};

// Verifies the files of manifest.folder in place.
std::unique_ptr<WeightFetcher> MakeSharedFetcher();

// The transfer of one file from one source, successful or not.
struct WeightTransfer {
  bool from_publisher = false;  // otherwise from another worker
  std::uint64_t bytes = 0;      // received in this transfer, as changes or as they are
  bool whole = false;           // the file is complete and has the right SHA-256
};

struct GrpcFetcherOptions {
  // A source is left when it is so late behind the least rate.
  std::int64_t patience_ms = 10000;
  std::uint64_t least_bytes_per_second = std::uint64_t{1} << 20;
  std::uint64_t seed = 0;  // of the order of the sources; differs by process
  std::function<void(const WeightTransfer&)> on_transfer = {};  // called after each transfer
  Credentials credentials = {};
};

// Downloads from manifest.sources into the store: from other workers, to share the load, and from
// the publisher, the first of the sources, if none of them completes a file. A worker that failed
// is not asked for a minute. After a failure the next source, or the next attempt, continues behind
// the bytes received so far. Where the newest version of the store has the file at the same size, a
// source that still has that version sends what changed since, if that is less. Where the result is
// wrong, because the file here is damaged, the same source is asked once more for the bytes.
//
// A source of a file may take patience_ms and the time of its bytes at the least rate, and is left
// after patience_ms without a byte. Three sources of a file are asked at most, so that Fetch ends
// in three times the time of all files at the least rate and 3 patience_ms per file; twice that
// with a damaged file here.
std::unique_ptr<WeightFetcher> MakeGrpcFetcher(WeightStoreOptions store,
                                               GrpcFetcherOptions options);

}  // namespace buttress
