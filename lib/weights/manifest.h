// What a policy version consists of. Its arrival is the commit: the files it names are complete and
// durable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"
#include "lib/experience/types.h"

namespace buttress {

struct TensorEntry {
  std::string name;   // as in the Hugging Face checkpoint
  std::string dtype;  // safetensors: F32, BF16, F16
  std::vector<std::int64_t> shape;
  std::string file;
  std::uint64_t begin = 0;  // bytes in that file
  std::uint64_t end = 0;

  bool operator==(const TensorEntry&) const = default;
};

struct WeightFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::string sha256;  // 32 bytes

  bool operator==(const WeightFile&) const = default;
};

// A greedy completion as the publisher's own model gives it, whatever stops there: whoever loads
// the weights into another engine proves by it that they are the ones that serve.
struct Canary {
  std::vector<std::int32_t> prompt_token_ids;
  std::vector<std::int32_t> token_ids;
  std::vector<float> logprobs;  // of token_ids, nats, at temperature 1

  bool operator==(const Canary&) const = default;
};

inline constexpr std::size_t kMaxCanaries = 64;
inline constexpr std::size_t kMaxCanaryTokens = 256;

struct WeightManifest {
  PolicyVersion version;  // digest = ManifestDigest(files, tensors)
  std::vector<WeightFile> files;
  std::vector<TensorEntry> tensors;
  std::string folder;                // on a shared file system, or empty
  std::vector<std::string> sources;  // host:port of Weights services, the publisher first
  std::vector<Canary> canaries;      // none where the publisher has no model; not in the digest

  std::uint64_t total_bytes() const;

  bool operator==(const WeightManifest&) const = default;
};

// SHA-256 over files and tensors in order; independent of version numbers and places.
std::string ManifestDigest(const WeightManifest& manifest);

// Structure and digest: plain file names, no name twice, tensors inside their files, 32-byte
// digests, canaries of at most kMaxCanaryTokens tokens with a finite log-prob each. kDataLoss says
// what is wrong.
Status CheckManifest(const WeightManifest& manifest);

// manifest.json of a version's folder; Parse checks structure and digest (kDataLoss).
std::string ManifestToJson(const WeightManifest& manifest);
Result<WeightManifest> ManifestFromJson(std::string_view json);

}  // namespace buttress
