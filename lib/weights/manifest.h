// The manifest of a policy version: its files, its tensors, where they can be fetched, and how to
// check them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "buttress/v1/weights.pb.h"
#include "lib/base/report/status.h"
#include "lib/experience/types.h"

namespace buttress {

struct TensorEntry {
  std::string name;   // as in the Hugging Face checkpoint
  std::string dtype;  // in the notation of safetensors: F32, BF16, F16
  std::vector<std::int64_t> shape;
  std::string file;
  std::uint64_t begin = 0;  // byte range [begin, end) of the file
  std::uint64_t end = 0;

  bool operator==(const TensorEntry&) const = default;
};

struct WeightFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::string sha256;  // 32 bytes

  bool operator==(const WeightFile&) const = default;
};

// A greedy completion of the publisher's own model. A process that loads the weights into another
// engine repeats it, to prove that the engine serves these weights.
struct Canary {
  std::vector<std::int32_t> prompt_token_ids;
  std::vector<std::int32_t> token_ids;
  std::vector<float> logprobs;  // of token_ids at temperature 1, in nats

  bool operator==(const Canary&) const = default;
};

inline constexpr std::size_t kMaxCanaries = 64;
inline constexpr std::size_t kMaxCanaryTokens = 256;

struct WeightManifest {
  PolicyVersion version;  // version.digest is ManifestDigest of this manifest
  std::vector<WeightFile> files;
  std::vector<TensorEntry> tensors;
  std::string folder;                // of the files on a shared file system, or empty
  std::vector<std::string> sources;  // addresses of Weights services, the publisher first
  std::vector<Canary> canaries;      // empty if the publisher has no model
  std::string run_id = {};           // of the run that made the version; empty outside of a run

  // The sum over the files.
  std::uint64_t total_bytes() const;

  bool operator==(const WeightManifest&) const = default;
};

// Returns the SHA-256 (32 bytes) over files and tensors in their order. Version numbers, places and
// canaries do not enter it.
std::string ManifestDigest(const WeightManifest& manifest);

// Checks that file names are plain, names are unique, tensors lie inside their files, digests have
// 32 bytes and match, and canaries have at most kMaxCanaryTokens tokens, each with a finite
// log-prob. kDataLoss names the first violation.
Status CheckManifest(const WeightManifest& manifest);

// ManifestToProto and the functions below convert manifests to and from protocol messages, and to
// and from the JSON of manifest.json, which is the JSON mapping of the message.
v1::WeightManifest ManifestToProto(const WeightManifest& manifest);

// Includes CheckManifest. kDataLoss.
Result<WeightManifest> ManifestFromProto(const v1::WeightManifest& proto);

// kInvalidArgument if a name or a path is not UTF-8.
Result<std::string> ManifestToJson(const WeightManifest& manifest);

// Includes CheckManifest. kDataLoss.
Result<WeightManifest> ManifestFromJson(const std::string& json);

}  // namespace buttress
