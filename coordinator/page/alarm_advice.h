// Advice about an alarm, for people who look at a run.
#pragma once

#include <string_view>

#include "lib/measure/measurements.h"

namespace buttress {

struct AlarmAdvice {
  std::string_view meaning;  // a sentence
  std::string_view remedy;   // what to do next, a sentence or two
};

const AlarmAdvice& AdviceOn(Alarm alarm);

}  // namespace buttress
