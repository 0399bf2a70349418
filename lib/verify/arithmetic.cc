#include <optional>

#include "lib/verify/extract.h"
#include "lib/verify/rational.h"
#include "lib/verify/verifiers.h"

namespace buttress {
namespace {

// Returns the integer if `text` is one and nothing else.
std::optional<Rational> Integer(std::string_view text) {
  if (text.find('.') != std::string_view::npos) return std::nullopt;
  return ParseDecimal(text);
}

class Arithmetic : public Verifier {
 public:
  Verdict Verify(const VerifyRequest& request) const override {
    const std::optional<Rational> gold = Integer(Trim(request.answer));
    if (!gold) return Unscorable("answer: no integer");
    const std::optional<std::string_view> tagged = InAnswerTags(request.response);
    if (!tagged && request.truncated) return Wrong("", ToString(*gold));
    const std::optional<Rational> given = Integer(tagged ? *tagged : Trim(request.response));
    if (!given) return Wrong("", ToString(*gold));
    return given == gold ? Correct(ToString(*given), ToString(*gold))
                         : Wrong(ToString(*given), ToString(*gold));
  }
};

}  // namespace

std::unique_ptr<Verifier> MakeArithmetic(const RewardConfig& /*config*/) {
  return std::make_unique<Arithmetic>();
}

}  // namespace buttress
