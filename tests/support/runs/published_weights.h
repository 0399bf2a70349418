// A version with two small tensors, "first" [4] and "second" [2] of bytes.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/report/check.h"
#include "lib/weights/publisher.h"

namespace buttress {

inline std::vector<SafetensorsWriter::Declared> SmallTable() {
  return {{"first", "U8", {4}}, {"second", "U8", {2}}};
}

// Publishes a version whose tensors have the given bytes by name.
inline WeightManifest PublishTensors(WeightPublisher& publisher, const PolicyVersion& version,
                                     const std::vector<PlannedFile>& files,
                                     const BytesOfTensor& bytes_of,
                                     std::vector<Canary> canaries = {}) {
  BUTTRESS_CHECK(publisher.Begin(version, files).ok(), "Begin");
  return *publisher.Commit(*WriteWeightFiles(publisher.folder(), files, bytes_of),
                           std::move(canaries));
}

inline WeightManifest PublishSmall(WeightPublisher& publisher, const PolicyVersion& version,
                                   const std::string& first, std::vector<Canary> canaries = {}) {
  const auto bytes_of = [&](const std::string& name) -> std::string_view {
    return name == "first" ? std::string_view(first) : "xy";
  };
  return PublishTensors(publisher, version, DivideWeights(SmallTable()), bytes_of,
                        std::move(canaries));
}

// One tensor of `bytes` bytes that differ from one another. `changed` of them, spread evenly, are
// other ones.
inline WeightManifest PublishLarge(WeightPublisher& publisher, const PolicyVersion& version,
                                   std::int64_t bytes, std::int64_t changed = 0) {
  std::string data(static_cast<std::size_t>(bytes), '\0');
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 2654435761U >> 13);
  for (std::int64_t i = 0; i < changed; ++i)
    ++data[static_cast<std::size_t>(i * (bytes / changed))];
  return PublishTensors(publisher, version, DivideWeights({{"first", "U8", {bytes}}}),
                        [&](const std::string&) { return std::string_view(data); });
}

}  // namespace buttress
