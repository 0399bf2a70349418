// Manifests as they travel.
#pragma once

#include "buttress/v1/weights.pb.h"
#include "lib/base/status.h"
#include "lib/weights/manifest.h"

namespace buttress {

v1::WeightManifest ManifestToProto(const WeightManifest& manifest);

// Checked like manifest.json (CheckManifest). kDataLoss.
Result<WeightManifest> ManifestFromProto(const v1::WeightManifest& proto);

}  // namespace buttress
