// Groups in admission order, each with its place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ext/pb_ds/assoc_container.hpp>
#include <ext/pb_ds/tree_policy.hpp>
#include <functional>

namespace buttress {

// A set of group ids in rising order.
class GroupLine {
 public:
  void Insert(std::uint64_t group_id) { ids_.insert(group_id); }

  void Erase(std::uint64_t group_id) { ids_.erase(group_id); }

  // Returns how many ids are below `group_id`, in O(log n).
  std::size_t Place(std::uint64_t group_id) const { return ids_.order_of_key(group_id); }

  std::size_t size() const { return ids_.size(); }

  auto begin() const { return ids_.begin(); }

  auto end() const { return ids_.end(); }

 private:
  __gnu_pbds::tree<std::uint64_t, __gnu_pbds::null_type, std::less<>, __gnu_pbds::rb_tree_tag,
                   __gnu_pbds::tree_order_statistics_node_update>
      ids_;
};

}  // namespace buttress
