#include <gmock/gmock.h>

#include "lib/config/load.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

constexpr char kMinimal[] = R"(run:
  data: {prompts: p.jsonl}
  model: {path: m}
)";

// Why the settings are refused; empty if they are not.
std::string Refusal(std::vector<std::string> overrides) {
  return ParseRunConfig(kMinimal, "b.yaml", overrides).status().message();
}

TEST(EnvRulesTest, EachKindNeedsWhatItStarts) {
  EXPECT_EQ(Refusal({"run.env.kind=builtin"}), "");
  EXPECT_EQ(Refusal({"run.env.kind=exec", "run.env.command=[python3, agent.py]"}), "");
  EXPECT_EQ(Refusal({"run.env.kind=http", "run.env.url=http://agents:8000/run"}), "");
  EXPECT_THAT(Refusal({"run.env.kind=exec"}), HasSubstr("run.env.command = []: name the program"));
  EXPECT_THAT(Refusal({"run.env.kind=http", "run.env.url=agents:8000"}),
              HasSubstr("run.env.url = agents:8000: expected http://"));
}

TEST(EnvRulesTest, ToolsAreKnownAndHaveTheirFiles) {
  const std::string tools = "run.env.kind=builtin";
  EXPECT_EQ(Refusal({tools, "run.env.tools=[python, search]", "run.env.search_file=notes.txt"}),
            "");
  EXPECT_THAT(Refusal({tools, "run.env.tools=[]"}), HasSubstr("name a tool or more"));
  EXPECT_THAT(Refusal({tools, "run.env.tools=[browser]"}), HasSubstr("run.env.tools = browser"));
  EXPECT_THAT(Refusal({tools, "run.env.tools=[python, python]"}), HasSubstr("appears twice"));
  EXPECT_THAT(Refusal({tools, "run.env.tools=[search]"}), HasSubstr("run.env.search_file"));
  EXPECT_EQ(Refusal({tools, "run.env.name=guess", "run.env.tools=[search]"}), "");
}

TEST(EnvRulesTest, WhatEpisodesExcludeIsRefused) {
  const std::string agent = "run.env.command=[agent]";
  EXPECT_THAT(Refusal({"run.env.credit=turn"}), HasSubstr("set run.env.kind"));
  EXPECT_EQ(Refusal({"run.env.kind=builtin", "run.eval.every=5", "run.data.held_out=h.jsonl"}), "");
  EXPECT_EQ(Refusal({"run.env.kind=builtin", "run.deterministic=true", "run.batch.max_age=0",
                     "run.batch.window=1"}),
            "");
  EXPECT_THAT(Refusal({"run.env.kind=exec", agent, "run.deterministic=true"}),
              HasSubstr("needs run.env.kind: builtin"));
  const std::string mask = "run.async.old_tokens=mask";
  EXPECT_EQ(Refusal({"run.env.kind=builtin", mask}), "");
  EXPECT_THAT(Refusal({"run.env.kind=builtin", "run.env.credit=turn", mask}),
              HasSubstr("run.async.old_tokens = mask: masks parts of turns"));
  EXPECT_THAT(Refusal({"local.worker.episodes.listen=0.0.0.0:0"}),
              HasSubstr("local.worker.episodes.listen"));
  EXPECT_THAT(Refusal({"local.worker.episodes.url=host:1"}),
              HasSubstr("local.worker.episodes.url = host:1"));
}

}  // namespace
}  // namespace buttress
