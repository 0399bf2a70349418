#include "cli/counts_json.h"

namespace buttress {

nlohmann::ordered_json CountsJson(const CollapseCounts& counts) {
  return {{"groups", counts.groups},
          {"acr", counts.acr()},
          {"all_correct", counts.all_correct},
          {"all_wrong", counts.all_wrong},
          {"other_constant", counts.other_constant},
          {"mixed", counts.mixed},
          {"unscorable", counts.unscorable}};
}

}  // namespace buttress
