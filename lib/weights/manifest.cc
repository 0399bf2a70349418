#include "lib/weights/manifest.h"

#include <fmt/core.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "lib/base/text/bounded_json.h"
#include "lib/base/text/digest.h"
#include "lib/experience/codec.h"
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

v1::WeightManifest ManifestToProto(const WeightManifest& manifest) {
  v1::WeightManifest proto;
  *proto.mutable_version() = ToProto(manifest.version);
  for (const WeightFile& file : manifest.files) {
    v1::WeightFile& out = *proto.add_files();
    out.set_name(file.name);
    out.set_bytes(file.bytes);
    out.set_sha256(file.sha256);
  }
  for (const TensorEntry& tensor : manifest.tensors) {
    v1::TensorEntry& out = *proto.add_tensors();
    out.set_name(tensor.name);
    out.set_dtype(tensor.dtype);
    for (const std::int64_t extent : tensor.shape) out.add_shape(extent);
    out.set_file(tensor.file);
    out.set_begin(tensor.begin);
    out.set_end(tensor.end);
  }
  proto.set_folder(manifest.folder);
  for (const std::string& source : manifest.sources) proto.add_sources(source);
  proto.set_total_bytes(manifest.total_bytes());
  proto.set_run_id(manifest.run_id);
  for (const Canary& canary : manifest.canaries) {
    v1::Canary& out = *proto.add_canaries();
    out.mutable_prompt_token_ids()->Assign(canary.prompt_token_ids.begin(),
                                           canary.prompt_token_ids.end());
    out.mutable_token_ids()->Assign(canary.token_ids.begin(), canary.token_ids.end());
    out.mutable_logprobs()->Assign(canary.logprobs.begin(), canary.logprobs.end());
  }
  return proto;
}

Result<WeightManifest> ManifestFromProto(const v1::WeightManifest& proto) {
  WeightManifest manifest;
  Result<PolicyVersion> version = FromProto(proto.version());
  if (!version.ok()) return DataLoss("manifest: " + version.status().message());
  manifest.version = *std::move(version);
  for (const v1::WeightFile& file : proto.files())
    manifest.files.push_back({file.name(), file.bytes(), file.sha256()});
  for (const v1::TensorEntry& tensor : proto.tensors()) {
    TensorEntry entry{tensor.name(), tensor.dtype(), {},
                      tensor.file(), tensor.begin(), tensor.end()};
    entry.shape.assign(tensor.shape().begin(), tensor.shape().end());
    for (const std::int64_t extent : entry.shape) {
      if (extent < 0)
        return DataLoss(
            fmt::format("manifest: tensor '{}' has the negative extent {}", entry.name, extent));
    }
    manifest.tensors.push_back(std::move(entry));
  }
  manifest.folder = proto.folder();
  manifest.sources.assign(proto.sources().begin(), proto.sources().end());
  for (const v1::Canary& canary : proto.canaries()) {
    manifest.canaries.push_back(
        {{canary.prompt_token_ids().begin(), canary.prompt_token_ids().end()},
         {canary.token_ids().begin(), canary.token_ids().end()},
         {canary.logprobs().begin(), canary.logprobs().end()}});
  }
  manifest.run_id = proto.run_id();
  BUTTRESS_RETURN_IF_ERROR(CheckManifest(manifest));
  return manifest;
}

Result<std::string> ManifestToJson(const WeightManifest& manifest) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status =
      google::protobuf::util::MessageToJsonString(ManifestToProto(manifest), &json, options);
  if (!status.ok()) return InvalidArgument(fmt::format("manifest: {}", status.ToString()));
  return json;
}

Result<WeightManifest> ManifestFromJson(const std::string& json) {
  if (NestedDeeper(json)) return DataLoss("manifest: JSON nested too deeply");
  v1::WeightManifest proto;
  const auto status = google::protobuf::util::JsonStringToMessage(json, &proto);
  if (!status.ok()) return DataLoss(fmt::format("manifest: {}", status.ToString()));
  return ManifestFromProto(proto);
}

}  // namespace buttress
