// Converts manifests to and from protocol messages, and to and from the JSON of manifest.json,
// which is the JSON mapping of the message.
#pragma once

#include <string>

#include "buttress/v1/weights.pb.h"
#include "lib/base/report/status.h"
#include "lib/weights/manifest.h"

namespace buttress {

v1::WeightManifest ManifestToProto(const WeightManifest& manifest);

// Includes CheckManifest. kDataLoss.
Result<WeightManifest> ManifestFromProto(const v1::WeightManifest& proto);

// kInvalidArgument if a name or a path is not UTF-8.
Result<std::string> ManifestToJson(const WeightManifest& manifest);

// Includes CheckManifest. kDataLoss.
Result<WeightManifest> ManifestFromJson(const std::string& json);

}  // namespace buttress
