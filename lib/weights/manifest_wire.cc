#include "lib/weights/manifest_wire.h"

#include <fmt/core.h>
#include <google/protobuf/util/json_util.h>

#include "lib/base/text/bounded_json.h"
#include "lib/experience/codec.h"

namespace buttress {

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
