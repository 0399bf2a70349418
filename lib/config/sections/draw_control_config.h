// Settings of the closed loop on collapse (docs/theory.md, section 9).
#pragma once

#include <cstdint>

#include "lib/config/limits.h"

namespace buttress {

// Dynamic sampling that draws no more than a target takes (lib/rl/collapse/draw_control.h).
struct DrawControlConfig {
  double mixed = 0.0;
  double gain = 0.5;
  std::int64_t tokens = 0;

  void Visit(auto& v) {
    v("mixed", mixed,
      "share of the groups of a step that shall be mixed; the groups that a step may replace "
      "follow from it, up to batch.resample.cap; 0 = off: up to that cap in every step",
      kRate);
    v("gain", gain,
      "change of the logarithm of the draw factor, for a step without any mixed group and a target "
      "of 1",
      kAbove0);
    v("tokens", tokens, "tokens after which no more groups are replaced in the run; 0 = no bound",
      AtLeast(0));
  }

  bool on() const { return mixed > 0; }
};

}  // namespace buttress
