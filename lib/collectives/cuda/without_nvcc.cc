// Takes the place of stochastic_adamw.cu where libbuttress_cuda.so is built without nvcc.
#include "lib/collectives/cuda/stochastic_adamw.h"

namespace buttress {

const char* LaunchStochasticAdamW(const AdamWRange&, void*) {
  return "libbuttress_cuda.so was built without nvcc; run deploy/setup.sh --cuda and build it "
         "again, "
         "or set run.optim.precision: fp32_master";
}

}  // namespace buttress
