#include "lib/weights/manifest.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "lib/base/digest.h"
#include "lib/weights/part_file.h"

namespace buttress {
namespace {

using Json = nlohmann::json;

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

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

Result<std::string> FromHex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    const int high = HexDigit(hex[i]);
    const int low = HexDigit(hex[i + 1]);
    if (high < 0 || low < 0) break;
    bytes += static_cast<char>(high * 16 + low);
  }
  if (bytes.size() != kDigestBytes || hex.size() != 2 * kDigestBytes) {
    return DataLoss(fmt::format("'{}' is not a SHA-256 in lower-case hexadecimal digits", hex));
  }
  return bytes;
}

// Reads the typed fields of a JSON object.
class Fields {
 public:
  explicit Fields(const Json& json) : json_(json) {}

  Result<std::string> Text(const char* key) const {
    if (!Has(key) || !json_[key].is_string())
      return DataLoss(fmt::format("'{}' is not a string", key));
    return json_[key].get<std::string>();
  }

  Result<std::uint64_t> Number(const char* key) const {
    if (!Has(key) || !json_[key].is_number_unsigned()) {
      return DataLoss(fmt::format("'{}' is not a non-negative integer", key));
    }
    return json_[key].get<std::uint64_t>();
  }

  Result<const Json*> List(const char* key) const {
    if (!Has(key) || !json_[key].is_array())
      return DataLoss(fmt::format("'{}' is not a list", key));
    return &json_[key];
  }

 private:
  bool Has(const char* key) const { return json_.is_object() && json_.contains(key); }

  const Json& json_;
};

Result<WeightFile> FileFrom(const Json& json) {
  const Fields fields(json);
  WeightFile file;
  BUTTRESS_ASSIGN_OR_RETURN(file.name, fields.Text("name"));
  BUTTRESS_ASSIGN_OR_RETURN(file.bytes, fields.Number("bytes"));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string hex, fields.Text("sha256"));
  BUTTRESS_ASSIGN_OR_RETURN(file.sha256, FromHex(hex));
  return file;
}

Result<TensorEntry> TensorFrom(const Json& json) {
  const Fields fields(json);
  TensorEntry tensor;
  BUTTRESS_ASSIGN_OR_RETURN(tensor.name, fields.Text("name"));
  BUTTRESS_ASSIGN_OR_RETURN(tensor.dtype, fields.Text("dtype"));
  BUTTRESS_ASSIGN_OR_RETURN(tensor.file, fields.Text("file"));
  BUTTRESS_ASSIGN_OR_RETURN(tensor.begin, fields.Number("begin"));
  BUTTRESS_ASSIGN_OR_RETURN(tensor.end, fields.Number("end"));
  BUTTRESS_ASSIGN_OR_RETURN(const Json* shape, fields.List("shape"));
  for (const Json& extent : *shape) {
    if (!extent.is_number_unsigned() ||
        extent.get<std::uint64_t>() >
            static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return DataLoss(fmt::format("tensor '{}': extent {} of 'shape' is not a non-negative integer",
                                  tensor.name, extent.dump()));
    }
    tensor.shape.push_back(extent.get<std::int64_t>());
  }
  return tensor;
}

Result<std::vector<std::int32_t>> TokensFrom(const Json& list) {
  std::vector<std::int32_t> tokens;
  for (const Json& id : list) {
    if (!id.is_number_unsigned() ||
        id.get<std::uint64_t>() > std::numeric_limits<std::int32_t>::max())
      return DataLoss(fmt::format("token {} of a canary is not a token id", id.dump()));
    tokens.push_back(id.get<std::int32_t>());
  }
  return tokens;
}

Result<Canary> CanaryFrom(const Json& json) {
  const Fields fields(json);
  Canary canary;
  BUTTRESS_ASSIGN_OR_RETURN(const Json* prompt, fields.List("prompt"));
  BUTTRESS_ASSIGN_OR_RETURN(canary.prompt_token_ids, TokensFrom(*prompt));
  BUTTRESS_ASSIGN_OR_RETURN(const Json* tokens, fields.List("tokens"));
  BUTTRESS_ASSIGN_OR_RETURN(canary.token_ids, TokensFrom(*tokens));
  BUTTRESS_ASSIGN_OR_RETURN(const Json* logprobs, fields.List("logprobs"));
  for (const Json& logprob : *logprobs) {
    if (!logprob.is_number())
      return DataLoss(fmt::format("log-prob {} of a canary is not a number", logprob.dump()));
    canary.logprobs.push_back(logprob.get<float>());
  }
  return canary;
}

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

std::string ManifestToJson(const WeightManifest& manifest) {
  Json json = {{"learner_epoch", manifest.version.learner_epoch},
               {"step", manifest.version.step},
               {"digest", ToHex(manifest.version.digest)},
               {"folder", manifest.folder},
               {"sources", manifest.sources},
               {"files", Json::array()},
               {"tensors", Json::array()},
               {"canaries", Json::array()}};
  for (const WeightFile& file : manifest.files) {
    json["files"].push_back(
        {{"name", file.name}, {"bytes", file.bytes}, {"sha256", ToHex(file.sha256)}});
  }
  for (const TensorEntry& tensor : manifest.tensors) {
    json["tensors"].push_back({{"name", tensor.name},
                               {"dtype", tensor.dtype},
                               {"shape", tensor.shape},
                               {"file", tensor.file},
                               {"begin", tensor.begin},
                               {"end", tensor.end}});
  }
  for (const Canary& canary : manifest.canaries) {
    json["canaries"].push_back({{"prompt", canary.prompt_token_ids},
                                {"tokens", canary.token_ids},
                                {"logprobs", canary.logprobs}});
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<WeightManifest> ManifestFromJson(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return DataLoss("manifest: the file is not a JSON object");
  const Fields fields(json);
  WeightManifest manifest;
  BUTTRESS_ASSIGN_OR_RETURN(manifest.version.learner_epoch, fields.Number("learner_epoch"));
  BUTTRESS_ASSIGN_OR_RETURN(manifest.version.step, fields.Number("step"));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string digest, fields.Text("digest"));
  BUTTRESS_ASSIGN_OR_RETURN(manifest.version.digest, FromHex(digest));
  BUTTRESS_ASSIGN_OR_RETURN(manifest.folder, fields.Text("folder"));
  BUTTRESS_ASSIGN_OR_RETURN(const Json* sources, fields.List("sources"));
  for (const Json& source : *sources) {
    if (!source.is_string())
      return DataLoss(fmt::format("manifest: source {} is not a string", source.dump()));
    manifest.sources.push_back(source.get<std::string>());
  }
  BUTTRESS_ASSIGN_OR_RETURN(const Json* files, fields.List("files"));
  for (const Json& entry : *files) {
    BUTTRESS_ASSIGN_OR_RETURN(WeightFile file, FileFrom(entry));
    manifest.files.push_back(std::move(file));
  }
  BUTTRESS_ASSIGN_OR_RETURN(const Json* tensors, fields.List("tensors"));
  for (const Json& entry : *tensors) {
    BUTTRESS_ASSIGN_OR_RETURN(TensorEntry tensor, TensorFrom(entry));
    manifest.tensors.push_back(std::move(tensor));
  }
  BUTTRESS_ASSIGN_OR_RETURN(const Json* canaries, fields.List("canaries"));
  for (const Json& entry : *canaries) {
    BUTTRESS_ASSIGN_OR_RETURN(Canary canary, CanaryFrom(entry));
    manifest.canaries.push_back(std::move(canary));
  }
  BUTTRESS_RETURN_IF_ERROR(CheckManifest(manifest));
  return manifest;
}

}  // namespace buttress
