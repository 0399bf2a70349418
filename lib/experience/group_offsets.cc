#include "lib/experience/group_offsets.h"

#include <string>

namespace buttress {

Status CheckGroupOffsets(std::span<const std::int32_t> group_offsets, std::size_t rows) {
  if (group_offsets.empty())
    return InvalidArgument("group_offsets is empty; expected K + 1 offsets");
  std::int32_t last = 0;
  for (std::size_t k = 0; k < group_offsets.size(); ++k) {
    const std::int32_t offset = group_offsets[k];
    if (k == 0 ? offset != 0 : offset < last) {
      return InvalidArgument("group_offsets[" + std::to_string(k) +
                             "] = " + std::to_string(offset) +
                             "; expected 0 for the first and then offsets that do not fall");
    }
    last = offset;
  }
  if (static_cast<std::size_t>(last) != rows) {
    return InvalidArgument("group_offsets end at " + std::to_string(last) + "; expected the " +
                           std::to_string(rows) + " completions of the batch");
  }
  return OkStatus();
}

}  // namespace buttress
