// A real run with built-in tools (run.env.name: tools): a model that has learnt to write calls, not
// always well, calls the calculator, hears its results and errors, and answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/runs/quickstart_run.h"

namespace buttress::tools_run_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr std::int64_t kToolsMs = 150000;
constexpr int kSteps = 4, kGroups = 8, kEpisodes = 8, kMostTurns = 3;

// Shows tools as the templates of Hermes do, by their names alone.
constexpr const char* kTemplate = R"jinja({%- if tools %}<|im_start|>system
{% for tool in tools %}<tools>{{ tool.function.name }}</tools>
{% endfor %}<|im_end|>
{% endif %}
{%- for m in messages %}
{%- if m.role == 'tool' %}<|im_start|>user
<tool_response>{{ m.content }}</tool_response><|im_end|>
{% elif m.role == 'assistant' %}<|im_start|>assistant
{{ m.content }}{% for call in m.tool_calls or [] %}{% set f = call.function -%}
<tool_call>{"name": "{{ f.name }}", "arguments": {{ f.arguments | tojson }}}</tool_call>
{%- endfor %}<|im_end|>
{% else %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %})jinja";

class ToolsRun : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return JoinPath(dir_.path(), name); }

  int Run(std::vector<std::string> argv) {
    argv[0] = SiblingProgram(argv[0]);
    std::remove(Path("log").c_str());
    return RunToEnd(argv, Path("log"), kToolsMs);
  }

  std::string text() const { return TextOf(Path("log")); }

  // The lines of the last command that are JSON.
  std::vector<json> Lines() const {
    std::vector<json> lines;
    std::istringstream all(text());
    for (std::string line; std::getline(all, line);) {
      if (line.starts_with('{')) lines.push_back(json::parse(line));
    }
    return lines;
  }

  // Sums, and conversations in which the calculator finds them.
  void WriteRows() const {
    std::string tasks, games;
    for (int a = 1; a <= 4; ++a) {
      for (int b = 1; b <= 4; ++b) {
        const std::string sum = std::to_string(a) + "+" + std::to_string(b),
                          value = std::to_string(a + b);
        const json user = {{"role", "user"}, {"content", sum}};
        const json function = {{"name", "calculator"}, {"arguments", {{"expression", sum}}}};
        const json calls = {{"role", "assistant"},
                            {"content", ""},
                            {"tool_calls", {{{"type", "function"}, {"function", function}}}}};
        const json tool = {{"role", "tool"}, {"name", "calculator"}, {"content", value}};
        const json answer = {{"role", "assistant"}, {"content", value}};
        const json tools = {{{"type", "function"}, {"function", {{"name", "calculator"}}}}};
        tasks += json{{"prompt", {user}}, {"answer", value}}.dump() + "\n";
        // The last field is for the tokenizer, which learns from every text.
        games +=
            json{{"messages", {user, calls, tool, answer}},
                 {"tools", tools},
                 {"call", R"(<tool_call>{"name": "calculator", "arguments": {"expression": ")"}}
                .dump() +
            "\n";
      }
    }
    ASSERT_TRUE(WriteFileAtomic(Path("sums.jsonl"), tasks).ok());
    ASSERT_TRUE(WriteFileAtomic(Path("games.jsonl"), games).ok());
  }

  void MakeModel() {
    ASSERT_EQ(Run({"buttress", "new-model", "--out", Path("new"), "--text", Path("games.jsonl"),
                   "--tokens", "330", "--layers", "2", "--hidden", "64", "--heads", "4",
                   "--intermediate", "128"}),
              0)
        << text();
    ASSERT_TRUE(WriteFileAtomic(Path("new/chat_template.jinja"), kTemplate).ok());
    ASSERT_EQ(Run({"buttress", "sft", "--model", Path("new"), "--data", Path("games.jsonl"),
                   "--out", Path("start"), "--steps", "80", "--batch", "16", "--lr", "5e-3"}),
              0)
        << text();
  }

  void Launch() {
    const std::string yaml =
        "run:\n  name: tools\n  steps: " + std::to_string(kSteps) +
        "\n  data: {prompts: sums.jsonl, held_out: sums.jsonl}\n  model: {path: start}\n"
        "  env: {kind: builtin, tools: [calculator], max_tokens: 256, max_turns: " +
        std::to_string(kMostTurns) +
        "}\n  sampling: {max_tokens: 80, group_size: " + std::to_string(kEpisodes) +
        "}\n  batch: {prompts: " + std::to_string(kGroups) +
        "}\n  reward: {verifier: exact}\n  optim: {lr: 3e-4}\nlocal: {out: out}\n";
    ASSERT_TRUE(WriteFileAtomic(Path("run.yaml"), yaml).ok());
    ASSERT_EQ(Run({"buttress", "launch", Path("run.yaml")}), 0)
        << text() << TextOf(Path("out/logs/worker-w0.log"));
  }

  // A replay has the rewards and verdicts that were recorded, and calls no tool.
  void ExpectReplayed(const std::vector<json>& groups) {
    std::map<int, json> rewards;
    for (const json& group : groups) {
      for (const json& episode : group["completions"])
        rewards[group["group"]].push_back(episode["raw_reward"]);
    }
    ASSERT_EQ(Run({"buttress", "replay", Path("out"), "--groups"}), 0) << text();
    std::vector<json> lines = Lines();
    const json summary = lines.back()["summary"];
    lines.pop_back();
    EXPECT_EQ(summary["steps"], kSteps);
    EXPECT_EQ(summary["mean_difference"], 0);
    EXPECT_EQ(lines.size(), rewards.size());
    for (const json& group : lines) {
      EXPECT_EQ(group["deciding_rewards"], rewards[group["group"]]) << group;
      EXPECT_EQ(group["trained"], group["replayed"]);
      EXPECT_EQ(group["trained"].size(), static_cast<std::size_t>(kEpisodes));
    }
  }

  // The start model answers as it did behind what the calculator is recorded to have said.
  void ExpectSampledAgain() {
    ASSERT_EQ(Run({"buttress", "replay", Path("out"), "--episodes", "--json"}), 0) << text();
    std::vector<json> lines = Lines();
    const json summary = lines.back()["summary"];
    lines.pop_back();
    EXPECT_EQ(summary["equal"], summary["turns"]) << text();
    EXPECT_EQ(summary["equal_episodes"], summary["episodes"]);
    EXPECT_EQ(summary["by_step"].size(), 1U) << summary;
    EXPECT_EQ(lines.size(), summary["turns"].get<std::size_t>());
    int behind_calls = 0;
    for (const json& turn : lines) behind_calls += turn["turn"] > 0 ? 1 : 0;
    EXPECT_GT(behind_calls, 0);
    ASSERT_EQ(Run({"buttress", "replay", Path("out"), "--episodes", "--model", Path("out/model")}),
              0)
        << text();
    EXPECT_THAT(text(), HasSubstr("episodes are as they were recorded, answered by"));
    EXPECT_THAT(text(), HasSubstr("answers that weights of step 1 sampled"));
  }

  TempDir dir_;
};

// What was seen in a run.
struct Seen {
  int groups = 0, calls = 0, failed = 0, several_turns = 0, correct = 0;
};

// The parts of an episode, of the policy and of the tools, in turns.
void ExpectParts(const json& episode, Seen& seen) {
  int policy = 0;
  std::string before;
  for (const json& part : episode["parts"]) {
    const bool own = part["by"] == "policy";
    EXPECT_NE(part["by"], before) << "they alternate";
    before = part["by"];
    EXPECT_EQ(part["text"].get<std::string>().find("<tool_response>") != std::string::npos, !own)
        << part;
    policy += own ? 1 : 0;
  }
  EXPECT_EQ(episode["turns"].size(), static_cast<std::size_t>(policy));
  EXPECT_GE(policy, 1);
  EXPECT_LE(policy, kMostTurns);
  for (const json& turn : episode["turns"]) {
    for (const json& tool : turn["tools"]) seen.calls += tool == "calculator" ? 1 : 0;
    seen.failed += turn["failed_tools"].get<int>();
  }
  seen.several_turns += policy > 1 ? 1 : 0;
  seen.correct += episode["outcome"] == "correct" ? 1 : 0;
}

TEST_F(ToolsRun, CallsAreAnsweredCountedAndNotTrained) {
  ASSERT_NO_FATAL_FAILURE(WriteRows());
  ASSERT_NO_FATAL_FAILURE(MakeModel());
  ASSERT_NO_FATAL_FAILURE(Launch());
  ASSERT_EQ(Run({"buttress", "samples", Path("out"), "--last", std::to_string(kSteps), "--json"}),
            0)
      << text();
  const std::vector<json> groups = Lines();
  ASSERT_EQ(groups.size(), static_cast<std::size_t>(kSteps * kGroups));
  Seen seen;
  for (const json& group : groups) {
    EXPECT_THAT(group["prompt_text"].get<std::string>(), HasSubstr("<tools>calculator</tools>"));
    ASSERT_EQ(group["completions"].size(), static_cast<std::size_t>(kEpisodes));
    for (const json& episode : group["completions"]) ExpectParts(episode, seen);
  }
  EXPECT_GT(seen.calls, 0);
  EXPECT_GT(seen.failed, 0) << "the policy makes mistakes";
  EXPECT_GT(seen.several_turns, 0);
  EXPECT_GT(seen.correct, 0);

  // The rows of the ledger.
  int foreign = 0;
  for (const json& group : groups) {
    ASSERT_EQ(Run({"buttress", "ledger", "show", Path("out"),
                   std::to_string(group["group"].get<int>()), "--json"}),
              0)
        << text();
    const json row = Lines().at(0);
    EXPECT_EQ(row["state"], "settled");
    for (std::size_t i = 0; i < group["completions"].size(); ++i) {
      const json &episode = group["completions"][i], &kept = row["completions"][i];
      EXPECT_EQ(kept["end"], episode["end"]);
      EXPECT_EQ(kept["turn_rewards"].size(), episode["turns"].size());
      EXPECT_LE(kept["trained_tokens"], kept["sampled_tokens"]);
      if (kept["outcome"] != "unscorable") {
        EXPECT_EQ(kept["trained_tokens"], kept["sampled_tokens"]);
      }
      const int others = kept["tokens"].get<int>() - kept["sampled_tokens"].get<int>();
      EXPECT_EQ(others > 0, episode["turns"].size() > 1) << "results of tools";
      foreign += others;
    }
  }
  EXPECT_GT(foreign, 0);
  ASSERT_EQ(Run({"buttress", "ledger", "audit", Path("out")}), 0) << text();

  ASSERT_NO_FATAL_FAILURE(ExpectReplayed(groups));
  ASSERT_NO_FATAL_FAILURE(ExpectSampledAgain());

  // The held-out prompts were episodes as well.
  const json before = json::parse(TextOf(Path("out/eval_before.json")));
  EXPECT_EQ(before["completions"], 16);
  EXPECT_GT(before["episodes"]["tool_calls_mean"], 0);
  EXPECT_GE(before["episodes"]["turns_mean"], 1);
  EXPECT_LE(before["episodes"]["turns_mean"], kMostTurns);
}

}  // namespace
}  // namespace buttress::tools_run_test
