// Converts manifests to and from protocol messages.
#pragma once

#include "buttress/v1/weights.pb.h"
#include "lib/base/status.h"
#include "lib/weights/manifest.h"

namespace buttress {

v1::WeightManifest ManifestToProto(const WeightManifest& manifest);

// Includes CheckManifest. kDataLoss.
Result<WeightManifest> ManifestFromProto(const v1::WeightManifest& proto);

}  // namespace buttress
