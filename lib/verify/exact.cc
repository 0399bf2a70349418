#include "lib/verify/extract.h"
#include "lib/verify/verifiers.h"

namespace buttress {
namespace {

class Exact : public Verifier {
 public:
  Verdict Verify(const VerifyRequest& request) const override {
    const std::string given(Trim(request.response));
    const std::string gold(Trim(request.answer));
    return given == gold && !request.truncated ? Correct(given, gold) : Wrong(given, gold);
  }
};

}  // namespace

std::unique_ptr<Verifier> MakeExact(const RewardConfig& /*config*/) {
  return std::make_unique<Exact>();
}

}  // namespace buttress
