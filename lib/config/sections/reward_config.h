// Settings of rewards: which verifier scores which completions, and the settings of each verifier.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/config/choice.h"
#include "lib/config/limits.h"

namespace buttress {

// What verifier `length` counts.
enum class LengthUnit : std::uint8_t { kWords, kCharacters, kTokens };

template <>
inline constexpr ChoiceRow<LengthUnit> kChoices<LengthUnit>[] = {
    {LengthUnit::kWords, "words"},
    {LengthUnit::kCharacters, "characters"},
    {LengthUnit::kTokens, "tokens"},
};

// Language of the responses that verifier `code` runs.
enum class CodeLanguage : std::uint8_t { kPython, kCpp };

template <>
inline constexpr ChoiceRow<CodeLanguage> kChoices<CodeLanguage>[] = {
    {CodeLanguage::kPython, "python"},
    {CodeLanguage::kCpp, "cpp"},
};

// Whether a TRL function gets chat messages or texts.
enum class ChatForm : std::uint8_t { kAuto, kAlways, kNever };

template <>
inline constexpr ChoiceRow<ChatForm> kChoices<ChatForm>[] = {
    {ChatForm::kAuto, "auto", "as the row's prompt is, which is what TRL does"},
    {ChatForm::kAlways, "always", "messages"},
    {ChatForm::kNever, "never", "texts, the prompt as the chat template renders it"},
};

// When two answers are the same (lib/verify/math/equal.h).
enum class MathMode : std::uint8_t { kLenient, kStrict };

template <>
inline constexpr ChoiceRow<MathMode> kChoices<MathMode>[] = {
    {MathMode::kLenient, "lenient"},
    {MathMode::kStrict, "strict"},
};

// What decides whether an error is made on purpose.
enum class NoiseBy : std::uint8_t { kText, kCompletion };

template <>
inline constexpr ChoiceRow<NoiseBy> kChoices<NoiseBy>[] = {
    {NoiseBy::kText, "text", "prompt and response: equal texts always turn alike"},
    {NoiseBy::kCompletion, "completion", "a draw for each completion, of equal texts too"},
};

// The ways of finding an answer in a text (lib/verify/math/answer.h), in the default order.
inline constexpr std::string_view kMathAnchors[] = {
    "boxed", "final answer is", "####", "answer:", "whole", "last expression"};

// Which sign separates the decimals of a number: 1.5 or 1,5.
enum class DecimalMark : std::uint8_t { kPoint, kComma };

template <>
inline constexpr ChoiceRow<DecimalMark> kChoices<DecimalMark>[] = {
    {DecimalMark::kPoint, "point"},
    {DecimalMark::kComma, "comma"},
};

struct MathConfig {
  MathMode mode = MathMode::kLenient;
  DecimalMark decimal = DecimalMark::kPoint;
  std::vector<std::string> anchors{std::begin(kMathAnchors), std::end(kMathAnchors)};

  void Visit(auto& v) {
    v("mode", mode, "when two answers are the same");
    v("decimal", decimal, "sign before the decimals of a number");
    v("anchors", anchors, "places where the answer of a response is looked for, in this order");
  }
};

struct SecondVerifierConfig {
  std::string verifier;
  double share = 0.0;

  void Visit(auto& v) {
    v("verifier", verifier,
      "an independent verifier; /metrics compares its verdicts with those of the first, and they "
      "are never trained on; empty: none");
    v("share", share, "share of completions that it scores, in [0, 1]", kRate);
  }
};

struct FormatConfig {
  std::vector<std::string> tags = {"think", "answer"};
  bool free_end = false;

  void Visit(auto& v) {
    v("tags", tags,
      "the response is these tags in this order, each once, with nothing but white space between");
    v("free_end", free_end, "any text may follow the last tag");
  }
};

struct LengthConfig {
  LengthUnit unit = LengthUnit::kWords;
  std::int64_t min = 1;
  std::int64_t max = 1024;
  std::int64_t overlong_tokens = 0;
  std::int64_t overlong_buffer = 0;

  void Visit(auto& v) {
    v("unit", unit, "what verifier length counts");
    v("min", min, "fewest of them");
    v("max", max, "most of them");
    v("overlong_tokens", overlong_tokens,
      "verifier overlong: tokens from which the penalty is -1; needed there",
      Between(0, kMaxTokens));
    v("overlong_buffer", overlong_buffer,
      "verifier overlong: tokens before that over which it grows from 0");
  }
};

struct CodeConfig {
  CodeLanguage language = CodeLanguage::kPython;
  std::string python = "/usr/bin/python3";
  std::string compiler = "/usr/bin/g++";
  std::vector<std::string> read_only;
  std::int64_t cpu_seconds = 2;
  std::int64_t wall_ms = 4000;
  std::int64_t compile_ms = 20000;
  std::int64_t memory_mb = 512;
  std::int64_t disk_mb = 16;
  std::int64_t output_kb = 64;
  std::int64_t processes = 16;
  double tolerance = 1e-6;

  void Visit(auto& v) {
    v("language", language, "language of the responses");
    v("python", python, "interpreter inside the sandbox");
    v("compiler", compiler, "C++ compiler inside the sandbox");
    v("read_only", read_only,
      "folders besides /usr that a program may read, as a virtual environment");
    v("cpu_seconds", cpu_seconds,
      "CPU time of a process of one test; past it the program fails the test", Between(1, 3600));
    v("wall_ms", wall_ms,
      "time of one test; past it the program fails the test. All tests of a completion have "
      "run.reward.timeout_ms",
      Between(1, kDayMs));
    v("compile_ms", compile_ms, "time to compile, which is no part of run.reward.timeout_ms",
      Between(1, kDayMs));
    v("memory_mb", memory_mb,
      "address space of a process, and memory of all processes of a program", Between(64, 1 << 20));
    v("disk_mb", disk_mb, "files that a program may write, in memory", Between(1, 1 << 20));
    v("output_kb", output_kb, "output of a program; past it the program fails the test",
      Between(1, 1 << 20));
    v("processes", processes,
      "processes and threads of a program, the sandbox's own three included", Between(4, 4096));
    v("tolerance", tolerance,
      "how far a floating-point number may be from the expected one, relative where that is above "
      "1",
      AtLeast(0));
  }
};

struct PythonConfig {
  std::string interpreter = "python3";
  std::int64_t workers = 1;
  std::int64_t start_ms = 60000;
  ChatForm chat = ChatForm::kAuto;
  std::map<std::string, std::string> arguments;
  std::int64_t restart_after = 0;
  std::int64_t memory_mb = 0;
  std::string revision;
  bool sandbox = false;
  // No setting: the folder for what functions print; empty: the standard error stream.
  std::string output = {};

  void Visit(auto& v) {
    v("interpreter", interpreter, "runs the reward functions python:FILE:FUNCTION");
    v("workers", workers,
      "processes of each function; run.reward.threads bounds how many work at once",
      Between(1, 1024));
    v("start_ms", start_ms, "time to import a file of functions", Between(1, kDayMs));
    v("chat", chat, "TRL: prompts and completions as lists of chat messages or as texts");
    v("arguments", arguments,
      "further arguments of every call by name, each value JSON or else text (verl's "
      "reward_kwargs)");
    v("restart_after", restart_after,
      "groups after which a process is replaced by a new one; 0 = never", Between(0, 1 << 20));
    v("memory_mb", memory_mb,
      "resident memory above which a process is replaced after its group; 0 = no bound",
      Between(0, 1 << 20));
    v("revision", revision,
      "a name for the state of the functions' files: a run resumes with changed files only with a "
      "new one",
      MayChange());
    v("sandbox", sandbox,
      "run the functions inside the sandbox of run.reward.code, for functions that execute what "
      "the model wrote");
  }
};

struct HttpRewardConfig {
  std::string url;
  std::string token_file;
  std::int64_t attempts = 3;

  void Visit(auto& v) {
    v("url", url, "where verifier http posts completions (docs/verifiers.md)");
    v("token_file", token_file, "file with a bearer token for it; empty: none");
    v("attempts", attempts, "tries of a request, all within run.reward.timeout_ms",
      Between(1, 100));
  }
};

struct RewardNoiseConfig {
  double false_positive = 0.0;
  double false_negative = 0.0;
  NoiseBy by = NoiseBy::kText;

  void Visit(auto& v) {
    v("false_positive", false_positive, "chance that a wrong completion counts as correct", kRate);
    v("false_negative", false_negative, "chance that a correct completion counts as wrong", kRate);
    v("by", by, "what decides, besides run.seed, which verdicts turn");
  }
};

// Controls: answers whose verdict is known, scored by the run's verifiers while it trains.
struct ControlConfig {
  std::int64_t per_step = 1;
  double steps_to_false_alarm = 10000;

  void Visit(auto& v) {
    v("per_step", per_step, "reference and spoiled answers scored at each step; 0 = none",
      Between(0, 64));
    v("steps_to_false_alarm", steps_to_false_alarm,
      "controls after which a sound verifier raises an alarm by chance, on average at least",
      AtLeast(10));
  }
};

struct RewardConfig {
  std::string verifier = "exact";
  std::map<std::string, std::string> by_source;
  bool use_all = false;
  std::int64_t threads = 1;
  std::int64_t timeout_ms = 5000;
  double correct_from = 1;
  MathConfig math;
  SecondVerifierConfig second;
  RewardNoiseConfig noise;
  ControlConfig controls;
  FormatConfig format;
  LengthConfig length;
  CodeConfig code;
  PythonConfig python;
  HttpRewardConfig http;

  void Visit(auto& v) {
    v("verifier", verifier,
      "what scores completions (buttress verify --list), or a weighted sum whose first part "
      "decides: math + 0.2 * format");
    v("by_source", by_source, "data source -> verifier or sum, where it differs from `verifier`");
    v("use_all", use_all, "countdown: every number exactly once instead of at most once");
    v("threads", threads, "scoring threads of a worker", MayChange(Between(1, 1024)));
    v("timeout_ms", timeout_ms,
      "time for one completion, and of python and http for one group; past it they are "
      "unscorable, or wrong if verifier code spent it in the program",
      MayChange(Between(1, kDayMs)));
    v("correct_from", correct_from,
      "python, http: score from which a completion counts as correct, unless the reply says which",
      kFinite);
    v("math", math, "mathematical answers (verifier: math)");
    v("second", second, "a second verifier for a share of the completions");
    v("noise", noise, "errors that are made on purpose, to study those of verifiers");
    v("controls", controls, "answers of known verdict that watch the verifiers");
    v("format", format, "verifier format");
    v("length", length, "verifiers length and overlong");
    v("code", code, "verifier code");
    v("python", python, "verifiers python:FILE:FUNCTION");
    v("http", http, "verifier http");
  }
};

}  // namespace buttress
