// The row layout of columns over N completions in K groups: group k owns rows
// [group_offsets[k], group_offsets[k + 1]).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/base/report/status.h"

namespace buttress {

// Returns OK if the K + 1 offsets start at 0, never fall and end at `rows`; otherwise
// kInvalidArgument.
Status CheckGroupOffsets(std::span<const std::int32_t> group_offsets, std::size_t rows);

// Returns the rows of group k, or an empty span if `values` is empty.
template <class T>
[[gnu::always_inline]] inline std::span<T> GroupRows(std::span<T> values,
                                                     std::span<const std::int32_t> group_offsets,
                                                     std::size_t k) {
  if (values.empty()) return values;
  const auto begin = static_cast<std::size_t>(group_offsets[k]);
  return values.subspan(begin, static_cast<std::size_t>(group_offsets[k + 1]) - begin);
}

}  // namespace buttress
