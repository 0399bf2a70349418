// Reads event files as TensorBoard does.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "buttress/v1/tensorboard.pb.h"
#include "cli/track/event_file.h"
#include "lib/base/file.h"

namespace buttress {

// The events of a file; each check is tested.
inline std::vector<v1::TensorBoardEvent> EventsIn(const std::string& path) {
  const std::string bytes = *ReadFile(path);
  std::vector<v1::TensorBoardEvent> events;
  const auto check_at = [&bytes](std::size_t offset) {
    std::uint32_t check = 0;
    std::memcpy(&check, bytes.data() + offset, sizeof check);
    return check;
  };
  for (std::size_t at = 0; at < bytes.size();) {
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data() + at, sizeof length);
    EXPECT_EQ(check_at(at + 8), MaskedCrc32c({bytes.data() + at, 8}));
    const std::string_view content(bytes.data() + at + 12, length);
    EXPECT_EQ(check_at(at + 12 + length), MaskedCrc32c(content));
    EXPECT_TRUE(events.emplace_back().ParseFromString(std::string(content)));
    at += 16 + length;
  }
  return events;
}

// The value under a tag, if the event has one.
inline std::optional<float> ValueOf(const v1::TensorBoardEvent& event, const std::string& tag) {
  for (const auto& value : event.summary().value()) {
    if (value.tag() == tag && value.has_simple_value()) return value.simple_value();
  }
  return std::nullopt;
}

}  // namespace buttress
