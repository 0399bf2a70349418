#include "lib/config/load_credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <optional>

#include "tests/support/runs/made_certificates.h"

namespace buttress {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string ErrorOf(const SecurityConfig& config, Program program = Program::kCoordinator) {
  const auto credentials = LoadCredentials(config, program);
  EXPECT_EQ(credentials.status().code(), StatusCode::kInvalidArgument);
  return credentials.status().message();
}

// The role whose token a program sends, as another program sees it.
std::optional<Role> SeenAs(const Credentials& sender, const Credentials& receiver) {
  return receiver.RoleOf("Bearer " + sender.token->Valid().front());
}

TEST(CredentialsTest, FilesOfTheScriptAreAcceptedAndReadableByTheOwnerOnly) {
  const MadeCertificates made("a,10.0.0.1 b");
  const auto a = LoadCredentials(made.Of("a"), Program::kWorker);
  const auto b = LoadCredentials(made.Of("b"), Program::kWorker);
  ASSERT_TRUE(a.ok() && b.ok()) << a.status().ToString() << b.status().ToString();
  EXPECT_EQ(a->token->Valid(), b->token->Valid());
  EXPECT_EQ(a->token->Valid().front().size(), 64U);
  EXPECT_NE(a->key, b->key);
  for (const char* secret : {"a.key", "b.key", "ca.key", "worker.token", "learner.token",
                             "operator.token", "monitor.token"}) {
    struct stat info {};

    ASSERT_EQ(::stat(made.Path(secret).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777U, 0600U) << secret;
  }
  EXPECT_TRUE(LoadCredentials({}, Program::kWorker)->empty());
}

TEST(CredentialsTest, EveryProgramIsSeenAsItsRoleByThoseThatItCalls) {
  const MadeCertificates made;
  const Credentials coordinator = made.Load(Program::kCoordinator);
  const Credentials worker = made.Load(Program::kWorker), learner = made.Load(Program::kLearner);
  EXPECT_EQ(SeenAs(worker, coordinator), Role::kWorker);
  EXPECT_EQ(SeenAs(learner, coordinator), Role::kLearner);
  EXPECT_EQ(SeenAs(made.Load(Program::kOperating), coordinator), Role::kOperator);
  EXPECT_EQ(SeenAs(made.Load(Program::kStatus), coordinator), Role::kMonitor);
  EXPECT_EQ(SeenAs(worker, worker), Role::kWorker) << "workers relay weights";
  EXPECT_EQ(SeenAs(worker, learner), Role::kWorker) << "workers fetch weights";
  EXPECT_EQ(SeenAs(learner, worker), std::nullopt);
  EXPECT_EQ(coordinator.token, nullptr) << "it calls nobody";
}

TEST(CredentialsTest, AProgramNeedsTheTokensOfItsOwnRoleAndOfItsCallersOnly) {
  const MadeCertificates made;
  std::filesystem::remove(made.Path("learner.token"));
  std::filesystem::remove(made.Path("operator.token"));
  EXPECT_TRUE(LoadCredentials(made.Of(), Program::kWorker).ok());
  EXPECT_THAT(ErrorOf(made.Of(), Program::kLearner),
              AllOf(HasSubstr("local.security.tokens"), HasSubstr("learner.token")));
  EXPECT_THAT(ErrorOf(made.Of(), Program::kOperating), HasSubstr("operator.token"));
}

TEST(CredentialsTest, TwoRolesWithOneTokenAreRefused) {
  const MadeCertificates made;
  std::filesystem::copy_file(made.Path("worker.token"), made.Path("learner.token"),
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(ErrorOf(made.Of()), HasSubstr("learner.token holds the token of the worker"));
}

TEST(CredentialsTest, AKeyThatOtherUsersMayReadIsRefused) {
  using std::filesystem::perms;
  const MadeCertificates made;
  std::filesystem::permissions(made.Of().key, perms::others_read,
                               std::filesystem::perm_options::add);
  EXPECT_THAT(ErrorOf(made.Of()), AllOf(HasSubstr("local.security.key: "), HasSubstr("chmod 600")));
}

TEST(CredentialsTest, FilesThatDoNotBelongTogetherAreNamed) {
  const MadeCertificates made("a b"), other("a");
  SecurityConfig config = made.Of("a");
  config.key = made.Path("b.key");
  EXPECT_THAT(ErrorOf(config), HasSubstr("b.key is not the key of "));
  config = made.Of("a");
  config.ca = other.Path("ca.pem");
  EXPECT_THAT(ErrorOf(config), HasSubstr("a.pem is not accepted by local.security.ca"));
  config = made.Of("a");
  config.certificate = made.Path("worker.token");
  EXPECT_THAT(ErrorOf(config), HasSubstr("local.security.certificate: " +
                                         made.Path("worker.token") + " holds no PEM certificate"));
  config.certificate = made.Path("none.pem");
  EXPECT_THAT(ErrorOf(config), HasSubstr("none.pem"));
}

}  // namespace
}  // namespace buttress
