#include "rollout_worker/vllm/check_servers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fakes/scripted_vllm.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

// What is found of a server with these settings; "" if all is well.
std::string Faults(ScriptedVllm::Settings settings, std::int64_t prompt_tokens = 8) {
  const ScriptedVllm server(std::move(settings));
  RunConfig config;
  config.run.data.max_prompt_tokens = prompt_tokens;
  config.run.sampling.max_tokens = 16;
  config.local.worker.vllm.servers = {server.url()};
  Findings findings;
  CheckVllmServers(config, findings);
  std::string text;
  for (const Finding& finding : findings.list())
    if (finding.severity != Severity::kOk)
      text += std::string(ChoiceName(finding.severity)) + " " + finding.text;
  return text;
}

TEST(CheckServersTest, AServerWithTheRightFlagsPasses) { EXPECT_EQ(Faults({}), ""); }

TEST(CheckServersTest, WhatAServerWasNotStartedWithIsNamed) {
  ScriptedVllm::Settings raw, no_route, no_dev;
  raw.logprobs_mode = "raw_logprobs";
  EXPECT_THAT(Faults(raw), HasSubstr("logprobs_mode = \"raw_logprobs\"; start the server with"));
  no_route.missing_route = "/collective_rpc";
  EXPECT_THAT(Faults(no_route), HasSubstr("has no route /collective_rpc"));
  no_dev.dev_mode = false;
  EXPECT_THAT(Faults(no_dev), HasSubstr("VLLM_SERVER_DEV_MODE"));
}

TEST(CheckServersTest, AProgramThatIsNotVllmIsNamed) {
  for (const char* route : {"/health", "/version"}) {
    ScriptedVllm::Settings other;
    other.missing_route = route;
    EXPECT_THAT(Faults(other), HasSubstr(std::string(" has no ") + route +
                                         "; expected a vLLM server: check the address"));
  }
}

TEST(CheckServersTest, AnAddressThatNobodyAnswersAtIsNamedWithTheMend) {
  ScriptedVllm server;
  server.Stop();
  RunConfig config;
  config.local.worker.vllm.servers = {server.url()};
  Findings findings;
  CheckVllmServers(config, findings);
  ASSERT_EQ(findings.list().size(), 1U);
  EXPECT_THAT(findings.list()[0].text, HasSubstr("; start it first, or let the run start servers"));
}

TEST(CheckServersTest, PromptAndCompletionMustFit) {
  ScriptedVllm::Settings settings;
  settings.max_model_len = 24;
  EXPECT_EQ(Faults(settings, 8), "");
  EXPECT_THAT(Faults(settings, 9), HasSubstr("warning a prompt of 9 and a completion of 16"));
  settings.max_model_len = 16;
  EXPECT_THAT(Faults(settings, 1), HasSubstr("error 16 tokens leave no place for a prompt"));
}

}  // namespace
}  // namespace buttress
