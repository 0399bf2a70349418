#include "cli/prepare/verifier_audit.h"

#include <gtest/gtest.h>

#include "lib/verify/anchors.h"

namespace buttress {
namespace {

// Accepts every response that contains the last character of the answer.
class LastCharacter : public Verifier {
 public:
  Verdict Verify(const VerifyRequest& request) const override {
    const auto box = InLastBox(request.answer);
    const std::string_view answer = box ? *box : request.answer;
    const bool holds = request.response.find(answer.back()) != std::string_view::npos;
    return holds ? Correct(std::string(request.response), std::string(answer))
                 : Wrong("", std::string(answer));
  }
};

VerifyRow Row(std::string answer) {
  VerifyRow row;
  row.id = "a";
  row.answer = std::move(answer);
  return row;
}

const AuditCheck& Named(const VerifierAudit& audit, std::string_view name) {
  for (const AuditCheck& check : audit.checks()) {
    if (check.name == name) return check;
  }
  ADD_FAILURE() << "no check " << name;
  return audit.checks().front();
}

TEST(VerifierAudit, TheMathVerifierPassesForPlainAnswers) {
  const auto verifier = MakeVerifier("math", RewardConfig{});
  VerifierAudit audit(true);
  for (const char* answer :
       {"12", "#### 1,234", "so $x = \\boxed{\\frac{3}{4}}$", "(1, 2)", "\\boxed{5\\text{ cm}}"})
    audit.Add(Row(answer), **verifier);
  for (const AuditCheck& check : audit.checks()) {
    EXPECT_GT(check.tried, 0) << check.name;
    EXPECT_EQ(check.failed, 0) << check.name << ": "
                               << (check.examples.empty() ? "" : check.examples.front().response);
  }
}

TEST(VerifierAudit, ACarelessVerifierFailsTheChecks) {
  const LastCharacter verifier;
  VerifierAudit audit(true);
  audit.Add(Row("12"), verifier);
  EXPECT_EQ(Named(audit, "gold equals gold").failed, 0);
  const AuditCheck& misses = Named(audit, "perturbed gold differs");
  EXPECT_GT(misses.failed, 0);
  EXPECT_EQ(misses.examples.front().id, "a");
  EXPECT_EQ(misses.examples.front().verdict.outcome, Outcome::kCorrect);
}

TEST(VerifierAudit, ARowWithoutAnAnswerIsNotPassedOver) {
  const auto verifier = MakeVerifier("math", RewardConfig{});
  VerifierAudit audit(true);
  audit.Add(Row(""), **verifier);
  const AuditCheck& gold = Named(audit, "gold equals gold");
  EXPECT_EQ(gold.tried, 1);
  ASSERT_EQ(gold.failed, 1);
  EXPECT_EQ(gold.examples.front().what, "without an answer");
}

TEST(VerifierAudit, LabelsGiveErrorRatesAndGroups) {
  const LastCharacter verifier;
  VerifierAudit audit(true);
  VerifyRow row = Row("12");
  row.responses = {"12", "42", "7", "8"};
  row.labels = {true, false, false, true};
  row.is_group = true;
  audit.Add(row, verifier);
  EXPECT_EQ(audit.noise().false_positive.errors, 1);
  EXPECT_EQ(audit.noise().false_positive.trials, 2);
  EXPECT_EQ(audit.noise().false_negative.errors, 1);
  EXPECT_EQ(audit.noise().false_negative.trials, 2);
  ASSERT_EQ(audit.noise().groups.size(), 1U);
  EXPECT_EQ(audit.noise().groups.front().correct, 2);
  EXPECT_EQ(audit.noise().measured.groups, 1);
}

}  // namespace
}  // namespace buttress
