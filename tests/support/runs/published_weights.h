// A version with two small tensors, "first" [4] and "second" [2] of bytes.
#pragma once

#include <string>
#include <vector>

#include "lib/base/report/check.h"
#include "lib/weights/publisher.h"

namespace buttress {

inline std::vector<SafetensorsWriter::Declared> SmallTable() {
  return {{"first", "U8", {4}}, {"second", "U8", {2}}};
}

inline WeightManifest PublishSmall(WeightPublisher& publisher, const PolicyVersion& version,
                                   const std::string& first) {
  BUTTRESS_CHECK(publisher.Begin(version, SmallTable()).ok(), "Begin");
  BUTTRESS_CHECK(publisher.Put("first", first).ok(), "Put first");
  BUTTRESS_CHECK(publisher.Put("second", "xy").ok(), "Put second");
  return *publisher.Commit();
}

// One tensor of `bytes` bytes that differ from one another.
inline WeightManifest PublishLarge(WeightPublisher& publisher, const PolicyVersion& version,
                                   std::int64_t bytes) {
  std::string data(static_cast<std::size_t>(bytes), '\0');
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 2654435761U >> 13);
  BUTTRESS_CHECK(publisher.Begin(version, {{"first", "U8", {bytes}}}).ok(), "Begin");
  BUTTRESS_CHECK(publisher.Put("first", data).ok(), "Put");
  return *publisher.Commit();
}

}  // namespace buttress
