#include "lib/weights/manifest.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "lib/base/text/digest.h"
#include "lib/weights/part_file.h"

namespace buttress {
namespace {

constexpr std::size_t kDigestBytes = 32;
constexpr float kRounding = 1e-3F;  // a log-prob may exceed 0 by this much

// Hashes numbers and length-prefixed strings, so that different manifests hash different bytes.
class DigestInput {
 public:
  DigestInput& Add(std::uint64_t number) {
    char bytes[8];
    for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>((number >> (8 * i)) & 0xff);
    sha_.Update({bytes, sizeof(bytes)});
    return *this;
  }

  DigestInput& Add(std::string_view text) {
    Add(static_cast<std::uint64_t>(text.size()));
    sha_.Update(text);
    return *this;
  }

  std::string Finish() { return sha_.Finish(); }

 private:
  Sha256 sha_;
};

Status CheckCanary(const Canary& canary) {
  const auto is_token = [](std::int32_t id) { return id >= 0; };
  const auto is_logprob = [](float value) { return std::isfinite(value) && value <= kRounding; };
  const std::size_t tokens = canary.token_ids.size();
  const bool sizes = !canary.prompt_token_ids.empty() && tokens > 0 &&
                     canary.logprobs.size() == tokens &&
                     canary.prompt_token_ids.size() + tokens <= kMaxCanaryTokens;
  if (!sizes) {
    return DataLoss(fmt::format(
        "manifest: a canary has {} prompt tokens, {} completion tokens and {} log-probs; expected "
        "at least one of each, a log-prob for each completion token, and at most {} tokens",
        canary.prompt_token_ids.size(), tokens, canary.logprobs.size(), kMaxCanaryTokens));
  }
  const bool values = std::ranges::all_of(canary.prompt_token_ids, is_token) &&
                      std::ranges::all_of(canary.token_ids, is_token) &&
                      std::ranges::all_of(canary.logprobs, is_logprob);
  if (!values) return DataLoss("manifest: a canary has a negative token or an invalid log-prob");
  return OkStatus();
}

}  // namespace

std::uint64_t WeightManifest::total_bytes() const {
  std::uint64_t total = 0;
  for (const WeightFile& file : files) total += file.bytes;
  return total;
}

std::string ManifestDigest(const WeightManifest& manifest) {
  DigestInput input;
  input.Add(manifest.files.size());
  for (const WeightFile& file : manifest.files)
    input.Add(file.name).Add(file.bytes).Add(file.sha256);
  input.Add(manifest.tensors.size());
  for (const TensorEntry& tensor : manifest.tensors) {
    input.Add(tensor.name).Add(tensor.dtype).Add(tensor.shape.size());
    for (const std::int64_t extent : tensor.shape) input.Add(static_cast<std::uint64_t>(extent));
    input.Add(tensor.file).Add(tensor.begin).Add(tensor.end);
  }
  return input.Finish();
}

Status CheckManifest(const WeightManifest& manifest) {
  std::map<std::string, std::uint64_t> bytes_of;
  std::uint64_t total = 0;
  for (const WeightFile& file : manifest.files) {
    if (!IsPlainFileName(file.name))
      return DataLoss(fmt::format("manifest: '{}' is not a plain file name", file.name));
    if (!bytes_of.emplace(file.name, file.bytes).second)
      return DataLoss(fmt::format("manifest: file '{}' is listed twice", file.name));
    if (file.sha256.size() != kDigestBytes)
      return DataLoss(fmt::format("manifest: file '{}' has a SHA-256 of {} bytes; expected {}",
                                  file.name, file.sha256.size(), kDigestBytes));
    if (__builtin_add_overflow(total, file.bytes, &total))
      return DataLoss("manifest: the total size of the files overflows 64 bits");
  }
  if (manifest.files.empty()) return DataLoss("manifest: no files are listed");
  std::set<std::string_view> names;
  for (const TensorEntry& tensor : manifest.tensors) {
    if (!names.insert(tensor.name).second)
      return DataLoss(fmt::format("manifest: tensor '{}' is listed twice", tensor.name));
    const auto file = bytes_of.find(tensor.file);
    if (file == bytes_of.end() || tensor.begin > tensor.end || tensor.end > file->second) {
      return DataLoss(
          fmt::format("manifest: tensor '{}' at bytes [{}, {}) of '{}' is outside the "
                      "files of the version",
                      tensor.name, tensor.begin, tensor.end, tensor.file));
    }
  }
  if (manifest.canaries.size() > kMaxCanaries)
    return DataLoss(fmt::format("manifest: {} canaries; the limit is {}", manifest.canaries.size(),
                                kMaxCanaries));
  for (const Canary& canary : manifest.canaries) BUTTRESS_RETURN_IF_ERROR(CheckCanary(canary));
  if (manifest.version.digest != ManifestDigest(manifest)) {
    return DataLoss(
        fmt::format("manifest of version {} has digest {}, its files and tensors have {}",
                    ToString(manifest.version), ToHex(manifest.version.digest),
                    ToHex(ManifestDigest(manifest))));
  }
  return OkStatus();
}

}  // namespace buttress
