// The layout of a batch: N completions in K groups, group k owns rows [group_offsets[k],
// group_offsets[k+1]).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/base/status.h"

namespace buttress {

// K + 1 offsets that start at 0, do not fall and end at `rows`. kInvalidArgument otherwise.
Status CheckGroupOffsets(std::span<const std::int32_t> group_offsets, std::size_t rows);

// Rows of group k; empty if `values` is.
template <class T>
[[gnu::always_inline]] inline std::span<T> GroupRows(std::span<T> values,
                                                     std::span<const std::int32_t> group_offsets,
                                                     std::size_t k) {
  if (values.empty()) return values;
  const auto begin = static_cast<std::size_t>(group_offsets[k]);
  return values.subspan(begin, static_cast<std::size_t>(group_offsets[k + 1]) - begin);
}

}  // namespace buttress
