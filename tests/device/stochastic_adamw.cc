// The kernel of stochastic rounding for the device of the tests.
#include "lib/collectives/cuda/stochastic_adamw.h"

#include "tests/device/runtime.h"

namespace buttress {

const char* LaunchStochasticAdamW(const AdamWRange& range, void* stream) {
  AdamWRange behind = range;
  behind.gradient =
      static_cast<const float*>(test_device::HostOf(const_cast<float*>(range.gradient)));
  for (std::uint16_t** const values : {&behind.parameter, &behind.first, &behind.second})
    *values = static_cast<std::uint16_t*>(test_device::HostOf(*values));
  static_cast<test_device::Stream*>(stream)->Enqueue([behind] {
    for (std::int64_t i = 0; i < behind.count; ++i) UpdateStochastically(behind, i);
  });
  return nullptr;
}

}  // namespace buttress
