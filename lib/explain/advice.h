// Turns a report into advice: the largest causes first, each with its cost and its fix. Pure.
#pragma once

#include <string>
#include <vector>

#include "lib/explain/post_mortem.h"

namespace buttress {

// Returns sentences, the most important first. A report without problems gives one sentence.
std::vector<std::string> NextSteps(const Report& report);

}  // namespace buttress
