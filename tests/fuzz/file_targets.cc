// Fuzz targets that parse files and replies of servers.
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/prepare/verify.h"
#include "cli/reference/advantages.h"
#include "lib/base/os/file.h"
#include "lib/base/text/bounded_json.h"
#include "lib/config/load.h"
#include "lib/data/prompt_file.h"
#include "lib/jinja/chat_template.h"
#include "lib/tokenizer/bpe_tokenizer.h"
#include "lib/tokenizer/json/tokenizer_config.h"
#include "lib/tokenizer/json/tokenizer_json.h"
#include "lib/weights/safetensors.h"
#include "rollout_worker/openai/request.h"
#include "rollout_worker/openai/tokenize.h"
#include "rollout_worker/vllm/protocol.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/fakes/byte_tokenizer.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

constexpr std::string_view kJsonPieces[] = {
    "{",           "}",         "[",          "]",
    ":",           ",",         "\"",         "null",
    "true",        "false",     "1e999",      "\"id\"",
    "\"answer\"",  "\"label\"", "\"labels\"", "\"response\"",
    "\"prompt\"",  "\\u0000",   "\\ud800",    "\"rewards\"",
    "\"content\"", "\"role\"",  "-1",         "\"merges\"",
    "\"vocab\"",   "\xff"};
constexpr std::string_view kYamlPieces[] = {
    ":", "\n  ", "- ",     "[",       "]",  "{", "}", "&a", "*a",  "!!", "|",
    ">", "run:", "local:", "reward:", "\"", "'", "#", "~",  "1e3", "---"};
constexpr std::string_view kTemplatePieces[] = {
    "{{",       "}}",     "{%",   "%}",          "{%-",
    "-%}",      "for ",   "in ",  "if ",         "endif",
    "endfor",   "else",   "set ", "loop.index0", "messages",
    "['role']", "| trim", "not ", "is defined",  "raise_exception(",
    "range(",   "[::-1]", "{#",   "#}",          "namespace(",
    "macro ",   "~",      "==",   ".split(",     "* 99999999"};
constexpr std::string_view kReplyPieces[] = {"data: ",
                                             "\n\n",
                                             "\r\n",
                                             "[DONE]",
                                             "{\"choices\":[",
                                             "\"token_ids\":",
                                             "\"logprobs\":",
                                             "\"finish_reason\":",
                                             "\"stop\"",
                                             "\"length\"",
                                             "null",
                                             "-0.5",
                                             "]",
                                             "}",
                                             "event: error",
                                             ":"};

const std::vector<std::string_view> kRequestPieces = Words(R"(
{ } [ ] : , " null true -1 1e999 "prompt" "stop" "messages" "role" "content" "type" "text" "tools"
"tool_calls" "model" "function" "arguments" "stream_options" "tokens" "logprobs" "seed"
"tool_choice")");

std::string Golden(const std::string& name) { return *ReadFile(BUTTRESS_SOURCE_DIR "/" + name); }

std::vector<std::string> Rows() {
  return {R"({"id": "a", "answer": "12", "response": "so it is 12", "label": true})",
          R"({"id": 7, "answer": "12", "responses": ["12", "13"], "labels": [1, 0]})",
          R"({"id": "q7", "rewards": [1, 0, null, 1], "lengths": [12, 40, 3, 9], )"
          R"("outcomes": ["correct", "wrong", "unscorable", "correct"]})",
          R"({"rewards": [1, 0], "components": [[1, 0.2], [0, 0.9]], )"
          R"("history": {"correct": 3, "scored": 8}})",
          R"({"id": "p", "prompt": [{"role": "user", "content": "2+2?"}], )"
          R"("answer": 4, "source": "s"})"};
}

void RunRows(std::string_view input) {
  const std::string text(input);
  JsonRow row;
  row.fields = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  row.line = 1;
  if (!NestedDeeper(text) && row.fields.is_object()) (void)ReadVerifyRow(std::move(row), {});
  (void)ParseGroups(text, "fuzz.jsonl");
  static const ByteTokenizer tokenizer("{{ messages[0].content }}");
  static const auto parser = PromptParser::Create(PromptDataset{}, tokenizer);
  (void)parser->Parse(input, 1);
}

std::vector<std::string> TokenizerFiles() {
  return {Golden("tests/golden/tokenizer/tokenizer.json"),
          Golden("tests/golden/tokenizer/digits.json"),
          R"({"eos_token": "<|im_end|>", "pad_token": {"content": "<pad>"}, )"
          R"("chat_template": "{{ messages }}"})"};
}

void RunTokenizer(std::string_view input) {
  auto config = ParseTokenizerConfig(input);
  auto spec = ParseTokenizerJson(input);
  if (!spec.ok()) return;
  const auto tokenizer =
      BpeTokenizer::Create(*std::move(spec), config.ok() ? *std::move(config) : TokenizerConfig{});
  if (!tokenizer.ok()) return;
  const auto tokens = (*tokenizer)->Encode("Hello, Welt! 12345 \t\n é 漢字 <|im_end|>");
  if (tokens.ok()) (void)(*tokenizer)->Decode(*tokens, SpecialTokens::kSkip);
}

std::vector<std::string> Safetensors() {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("b":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]}})";
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  return {file + header + std::string(32, 'x')};
}

void RunSafetensors(std::string_view input) {
  static const TempDir folder;
  const std::string path = folder.path() + "/model.safetensors";
  std::ofstream(path, std::ios::binary) << input;
  const auto file = SafetensorsFile::Open(path);
  if (!file.ok()) return;
  std::size_t sum = 0;  // reads every byte of every tensor
  for (const TensorView& tensor : (*file)->tensors()) {
    for (const char c : tensor.data) sum += static_cast<unsigned char>(c);
  }
  const volatile std::size_t kept = sum;
  (void)kept;
}

std::vector<std::string> Configs() {
  return {Golden("configs/quickstart.yaml"), Golden("configs/vllm.yaml"),
          PrintRunConfig(RunConfig{})};
}

void RunConfigText(std::string_view input) {
  ParseRunConfig(std::string(input), "fuzz.yaml", {"run.optim.lr=1e-5"}).status().IgnoreError();
}

std::vector<std::string> Templates() {
  std::vector<std::string> templates = {Golden("tests/golden/chat_template/qwen2.jinja"),
                                        Golden("tests/golden/chat_template/qwen2_5.jinja"),
                                        Golden("tests/golden/chat_template/qwen3.jinja")};
  const auto golden = nlohmann::json::parse(Golden("tests/golden/chat_template/renders.json"));
  for (const auto& snippet : golden["snippets"]) templates.push_back(snippet[0]);
  return templates;
}

void RunTemplate(std::string_view input) {
  const auto parsed = ChatTemplate::Parse(input);
  if (!parsed.ok()) return;
  const nlohmann::json messages = {{{"role", "system"}, {"content", "Be brief."}},
                                   {{"role", "user"}, {"content", "2+2?"}}};
  (void)parsed->Render(messages, true, {{"bos_token", "<s>"}, {"tools", nlohmann::json::array()}});
}

std::vector<std::string> Replies() {
  return {
      "data: "
      "{\"choices\":[{\"index\":0,\"text\":\"a\",\"prompt_token_ids\":[1,2],\"token_ids\":[5,6],"
      "\"logprobs\":{\"token_logprobs\":[-0.5,-1]},"
      "\"finish_reason\":null}]}\n\ndata: "
      "{\"choices\":[{\"index\":0,\"text\":\"\",\"token_ids\":[7],\"logprobs\":{\"token_logprobs\":"
      "[-0.1]},"
      "\"finish_reason\":\"stop\"}]}\n\ndata: "
      "{\"choices\":[],\"usage\":{\"prompt_tokens\":2,\"completion_tokens\":3}}\n\ndata: "
      "[DONE]\n\n",
      "data: {\"error\":{\"message\":\"out of memory\",\"code\":500}}\n\n"};
}

void RunReply(std::string_view input) {
  ErrorText(input);
  CompletionStream whole(2, 16);
  if (whole.Read(input).ok()) (void)whole.Finish();
  CompletionStream pieces(2, 16);  // receives the input in pieces
  for (std::size_t at = 0; at < input.size(); at += 7) {
    if (!pieces.Read(input.substr(at, 7)).ok()) return;
  }
  (void)pieces.Finish();
}

std::vector<std::string> Requests() {
  return {R"({"model": "m", "prompt": [[1, 2], [3]], "n": 2, "stop": ["a"], "seed": 5, )"
          R"("stream": true, "stream_options": {"include_usage": true}, "logprobs": 0})",
          R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}, )"
          R"({"role": "assistant", "tool_calls": [{"function": {"name": "f", )"
          R"("arguments": "{\"a\": 1}"}}]}], "tools": [{"type": "function", )"
          R"("function": {"name": "f"}}], "tool_choice": "auto", "top_logprobs": 1})",
          R"({"prompt": "a", "add_special_tokens": false})", R"({"tokens": [1, 2]})"};
}

void RunRequest(std::string_view input) {
  ParseCompletions(input).status().IgnoreError();
  ParseChat(input).status().IgnoreError();
  ParseTokenize(input).status().IgnoreError();
  ParseDetokenize(input).status().IgnoreError();
}

}  // namespace

std::vector<FuzzTarget> FileTargets() {
  return {{"rows", Rows, kJsonPieces, 1 << 14, RunRows},
          {"tokenizer", TokenizerFiles, kJsonPieces, 1 << 16, RunTokenizer},
          {"safetensors", Safetensors, kJsonPieces, 1 << 14, RunSafetensors},
          {"config", Configs, kYamlPieces, 1 << 14, RunConfigText},
          {"template", Templates, kTemplatePieces, 1 << 14, RunTemplate},
          {"reply", Replies, kReplyPieces, 1 << 14, RunReply},
          {"request", Requests, kRequestPieces, 1 << 14, RunRequest}};
}

}  // namespace buttress
