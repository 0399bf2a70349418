// Settings of episodes: what a completion is made of where the policy speaks more than once, with
// tools or an environment in between (run.env).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/config/choice.h"
#include "lib/config/limits.h"

namespace buttress {

// What holds the conversation with the policy.
enum class EnvKind : std::uint8_t { kSingle, kBuiltin, kExec, kHttp };

template <>
inline constexpr ChoiceRow<EnvKind> kChoices<EnvKind>[] = {
    {EnvKind::kSingle, "single", "nothing: a prompt and one completion"},
    {EnvKind::kBuiltin, "builtin", "the worker, by run.env.name"},
    {EnvKind::kExec, "exec", "a program, started for each episode"},
    {EnvKind::kHttp, "http", "a service, called for each episode"},
};

enum class BuiltinEnv : std::uint8_t { kTools, kGuess };

template <>
inline constexpr ChoiceRow<BuiltinEnv> kChoices<BuiltinEnv>[] = {
    {BuiltinEnv::kTools, "tools", "run.env.tools answer calls until the policy makes none"},
    {BuiltinEnv::kGuess, "guess", "the policy guesses a number and hears higher or lower"},
};

// How a policy writes tool calls.
enum class ToolFormat : std::uint8_t { kAuto, kHermes, kLlama, kMistral, kPythonic, kQwen, kGlm };

template <>
inline constexpr ChoiceRow<ToolFormat> kChoices<ToolFormat>[] = {
    {ToolFormat::kAuto, "auto", "as the chat template of the model shows it"},
    {ToolFormat::kHermes, "hermes", "<tool_call>{\"name\": ..., \"arguments\": {...}}</tool_call>"},
    {ToolFormat::kLlama, "llama", "{\"name\": ..., \"parameters\": {...}}"},
    {ToolFormat::kMistral, "mistral", "[TOOL_CALLS][{\"name\": ..., \"arguments\": {...}}]"},
    {ToolFormat::kPythonic, "pythonic", "[name(argument=value)]"},
    {ToolFormat::kQwen, "qwen",
     "<tool_call><function=name><parameter=argument>value</parameter></function></tool_call>"},
    {ToolFormat::kGlm, "glm",
     "<tool_call>name<arg_key>argument</arg_key><arg_value>value</arg_value></tool_call>"},
};

// What estimators compare.
enum class EpisodeCredit : std::uint8_t { kEpisode, kTurn };

template <>
inline constexpr ChoiceRow<EpisodeCredit> kChoices<EpisodeCredit>[] = {
    {EpisodeCredit::kEpisode, "episode",
     "whole episodes: each is one completion (StarPO, arXiv 2504.20073)"},
    {EpisodeCredit::kTurn, "turn",
     "their turns: each is a completion, whose reward is the sum of its own and those of later "
     "turns (turn-level credit, arXiv 2505.11821)"},
};

struct EnvConfig {
  EnvKind kind = EnvKind::kSingle;
  BuiltinEnv name = BuiltinEnv::kTools;
  std::vector<std::string> tools = {"calculator"};
  std::string search_file;
  std::int64_t guess_max = 16;
  std::vector<std::string> command;
  std::string url;
  ToolFormat tool_format = ToolFormat::kAuto;
  EpisodeCredit credit = EpisodeCredit::kEpisode;
  std::int64_t max_turns = 8;
  std::int64_t max_tokens = 4096;
  std::int64_t max_tool_calls = 32;
  std::int64_t max_result_bytes = 16384;
  std::int64_t timeout_ms = 300000;

  // Whether completions are episodes.
  bool on() const { return kind != EnvKind::kSingle; }

  void Visit(auto& v) {
    v("kind", kind, "what holds the conversation with the policy");
    v("name", name, "kind: builtin: which one");
    v("tools", tools, "name: tools: those of calculator, python, search that the policy has");
    v("search_file", search_file,
      "tool search: a text file, whose paragraphs are searched; empty: none");
    v("guess_max", guess_max, "name: guess: the number is 1 to this", Between(2, 1000000));
    v("command", command,
      "kind: exec: the program and its arguments; OPENAI_BASE_URL, OPENAI_API_KEY and "
      "BUTTRESS_TASK are in its environment (docs/agents.md)");
    v("url", url, "kind: http: where the worker posts the task of an episode (docs/agents.md)");
    v("tool_format", tool_format, "how the policy writes tool calls");
    v("credit", credit, "what estimators compare");
    v("max_turns", max_turns, "answers of the policy in an episode at most", Between(1, 4096));
    v("max_tokens", max_tokens,
      "tokens of a conversation behind its first prompt at most; sampling.max_tokens bounds one "
      "answer",
      Between(1, kMaxTokens));
    v("max_tool_calls", max_tool_calls, "tool calls of an episode at most", Between(0, 65536));
    v("max_result_bytes", max_result_bytes,
      "bytes of the result of a tool; what is beyond is cut off, and the text says so",
      Between(64, 1 << 24));
    v("timeout_ms", timeout_ms, "time of an episode; past it the episode is unscorable",
      Between(1, kDayMs));
  }
};

}  // namespace buttress
