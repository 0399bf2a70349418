#include "lib/experience/group_offsets.h"

#include <fmt/core.h>

namespace buttress {

Status CheckGroupOffsets(std::span<const std::int32_t> group_offsets, std::size_t rows) {
  if (group_offsets.empty())
    return InvalidArgument("group_offsets is empty; expected K + 1 offsets");
  std::int32_t last = 0;
  for (std::size_t k = 0; k < group_offsets.size(); ++k) {
    const std::int32_t offset = group_offsets[k];
    if (k == 0 ? offset != 0 : offset < last) {
      return InvalidArgument(fmt::format(
          "group_offsets[{}] = {}; expected 0 for the first, then offsets that do not fall", k,
          offset));
    }
    last = offset;
  }
  if (static_cast<std::size_t>(last) != rows) {
    return InvalidArgument(
        fmt::format("group_offsets end at {}; expected the number of completions, {}", last, rows));
  }
  return OkStatus();
}

}  // namespace buttress
