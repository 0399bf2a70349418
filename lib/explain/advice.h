// What to do next, from a report: the largest causes first, each with what it cost and what mends
// it. Pure.
#pragma once

#include <string>
#include <vector>

#include "lib/explain/post_mortem.h"

namespace buttress {

// Sentences, the most important first; one that says so if there is nothing to mend.
std::vector<std::string> NextSteps(const Report& report);

}  // namespace buttress
