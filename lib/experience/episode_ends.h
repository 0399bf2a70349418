// The names of the ends of episodes, in metrics, JSON and texts.
#pragma once

#include <array>
#include <string_view>

#include "buttress/v1/experience.pb.h"

namespace buttress {

// By v1::EpisodeEnd.
inline constexpr std::array<std::string_view, 7> kEpisodeEnds = {
    "unspecified", "done", "turns", "tokens", "tools", "time", "failed"};

// REQUIRES: `end` is known (CheckGroup).
inline std::string_view EpisodeEndName(v1::EpisodeEnd end) {
  return kEpisodeEnds[static_cast<std::size_t>(end)];
}

}  // namespace buttress
