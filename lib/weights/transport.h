// How a version travels: the learner publishes a folder, workers fetch it from a shared file system
// or over gRPC, from the learner or from one another. A reader verifies size and digest before it
// offers anything.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/credentials.h"
#include "lib/base/status.h"
#include "lib/weights/manifest.h"
#include "lib/weights/safetensors.h"

namespace buttress {

// Begin, Put in table order, Commit; one version at a time. Not thread-safe.
class WeightPublisher {
 public:
  virtual ~WeightPublisher() = default;
  virtual Status Begin(const PolicyVersion& version,
                       const std::vector<SafetensorsWriter::Declared>& table) = 0;
  virtual Status Put(std::string_view name, std::string_view bytes) = 0;
  // The version is durable, then named: manifest.json is renamed last. Older versions beyond `keep`
  // are deleted.
  virtual Result<WeightManifest> Commit(std::vector<Canary> canaries) = 0;

  Result<WeightManifest> Commit() { return Commit({}); }
};

struct WeightStoreOptions {
  std::string folder;                // versions lie in <folder>/v<learner_epoch>-<step>/
  int keep = 3;                      // versions kept
  bool durable = true;               // fsync; off where a lost version is simply published again
  std::vector<std::string> sources;  // put into manifests
};

Result<std::unique_ptr<WeightPublisher>> MakeFolderPublisher(WeightStoreOptions options);

// Brings a manifest's files here. Thread-safe.
class WeightFetcher {
 public:
  virtual ~WeightFetcher() = default;

  // Returns the manifest with `folder` naming a local (or shared) folder whose every file has the
  // size and SHA-256 of the manifest. kDataLoss: the bytes are wrong, nothing is offered;
  // kUnavailable: try again (a gRPC transfer goes on where it broke off).
  virtual Result<WeightManifest> Fetch(const WeightManifest& manifest) = 0;
};

// Reads manifest.folder in place.
std::unique_ptr<WeightFetcher> MakeSharedFetcher();

// What one source gave of one file.
struct WeightTransfer {
  bool from_publisher = false;  // else from another worker
  std::uint64_t bytes = 0;      // of this transfer, without what an earlier one had left
  bool whole = false;           // the file is complete and has its SHA-256
};

struct GrpcFetcherOptions {
  std::int64_t progress_timeout_ms = 30000;  // without a byte for so long, the next source is asked
  std::uint64_t seed = 0;  // of the order of the sources; different in every process
  std::function<void(const WeightTransfer&)> on_transfer = {};  // after each, if set
  Credentials credentials = {};
};

// Pulls from manifest.sources into <folder>/v...: from other workers, else from the publisher
// (lib/weights/source_order.h).
std::unique_ptr<WeightFetcher> MakeGrpcFetcher(WeightStoreOptions store,
                                               GrpcFetcherOptions options);

// The Weights gRPC service over every version folder below `folder`. Bound at construction; port()
// is the real one.
class WeightServer {
 public:
  static Result<std::unique_ptr<WeightServer>> Start(const std::string& folder,
                                                     const std::string& listen,
                                                     const Credentials& credentials = {});
  virtual ~WeightServer() = default;
  // host:port as bound; a wildcard host becomes this machine's name.
  virtual std::string address() const = 0;
};

}  // namespace buttress
