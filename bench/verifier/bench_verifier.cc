// Measures the math verifier on a file of {"answer", "response"} rows, for bench/verifier/run.py.
// Prints one line per row: the outcome and the CPU seconds of the best of several passes. One
// thread.
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "lib/verify/verifier.h"

namespace buttress {
namespace {

struct Row {
  std::string answer;
  std::string response;
  Outcome outcome = Outcome::kUnscorable;
  double seconds = std::numeric_limits<double>::infinity();
};

double ThreadSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

Result<std::vector<Row>> ReadRows(const std::string& path) {
  std::ifstream file(path);
  if (!file) return NotFound("cannot read " + path);
  std::vector<Row> rows;
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("answer") || !json["answer"].is_string() ||
        !json.contains("response") || !json["response"].is_string())
      return DataLoss(path + ": a row is not an object of two texts, answer and response");
    Row& row = rows.emplace_back();
    row.answer = json["answer"].get<std::string>();
    row.response = json["response"].get<std::string>();
  }
  return rows;
}

Status Run(const std::string& path, int passes) {
  BUTTRESS_ASSIGN_OR_RETURN(std::vector<Row> rows, ReadRows(path));
  BUTTRESS_ASSIGN_OR_RETURN(const auto verifier, MakeVerifier("math", RewardConfig{}));
  for (int pass = 0; pass < passes; ++pass) {
    for (Row& row : rows) {
      const double begin = ThreadSeconds();
      row.outcome = verifier->Verify({{}, row.response, row.answer, {}, false}).outcome;
      row.seconds = std::min(row.seconds, ThreadSeconds() - begin);
    }
  }
  for (const Row& row : rows)
    std::printf("%s %.9f\n", std::string(OutcomeName(row.outcome)).c_str(), row.seconds);
  return OkStatus();
}

// Prints the CPU time of adversarial responses of growing size. Linear time is four times as long
// for four times the bytes.
Status PrintGrowth() {
  BUTTRESS_ASSIGN_OR_RETURN(const auto verifier, MakeVerifier("math", RewardConfig{}));
  constexpr const char* kPieces[] = {
      "\\boxed{", "{",    "}",  "$",          "\\(",          "(",       "[",
      "|",        "^",    "-",  "1,",         "1/",           "\\frac",  "\\text{",
      "!",        "1+",   "x",  "answer is ", "####",         "A:\n",    "\\\\",
      "1 ",       "\xff", "<|", "**",         "\\boxed{1}, ", "<think>", "final answer is 1. "};
  std::printf("%-20s %10s %10s %10s %10s\n", "ms of", "16 KiB", "64 KiB", "256 KiB", "1 MiB");
  for (const std::string piece : kPieces) {
    std::printf("%-20s", piece == "A:\n" ? "A:\\n" : piece == "\xff" ? "\\xff" : piece.c_str());
    for (const std::size_t size : {1U << 14, 1U << 16, 1U << 18, 1U << 20}) {
      std::string response;
      while (response.size() < size) response += piece;
      const double begin = ThreadSeconds();
      verifier->Verify({{}, response, "7", {}, false});
      std::printf(" %10.3f", 1e3 * (ThreadSeconds() - begin));
    }
    std::printf("\n");
  }
  return OkStatus();
}

}  // namespace
}  // namespace buttress

int main(int argc, char** argv) {
  std::string path;
  int passes = 3;
  CLI::App app("Seconds per answer of the math verifier");
  bool growth = false;
  app.add_option("file", path, "JSONL of {answer, response}");
  app.add_option("--passes", passes, "times that each row is judged");
  app.add_flag("--growth", growth,
               "instead: milliseconds for adversarial responses of growing size");
  CLI11_PARSE(app, argc, argv);
  const buttress::Status status = growth ? buttress::PrintGrowth() : buttress::Run(path, passes);
  if (!status.ok()) std::fprintf(stderr, "bench_verifier: %s\n", status.message().c_str());
  return buttress::ExitCode(status);
}
