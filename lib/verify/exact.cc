#include <utility>

#include "lib/verify/extract.h"
#include "lib/verify/verifiers.h"

namespace buttress {
namespace {

class Exact : public Verifier {
 public:
  Verdict Verify(const VerifyRequest& request) const override {
    std::string given(Trim(request.response));
    std::string gold(Trim(request.answer));
    const bool equal = given == gold && !request.truncated;
    return equal ? Correct(std::move(given), std::move(gold))
                 : Wrong(std::move(given), std::move(gold));
  }
};

}  // namespace

std::unique_ptr<Verifier> MakeExact(const RewardConfig& /*config*/) {
  return std::make_unique<Exact>();
}

}  // namespace buttress
