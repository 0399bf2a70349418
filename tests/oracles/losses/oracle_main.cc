// Losses of micro-batches from standard input, one JSON object a line (answer.h), for compare.py.
#include <ATen/Parallel.h>

#include <cstdio>
#include <iostream>
#include <string>

#include "tests/oracles/losses/answer.h"

int main() {
  at::set_num_threads(1);
  std::string line;
  while (std::getline(std::cin, line)) {
    const auto row = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    const auto answer =
        row.is_object()
            ? buttress::LossAnswer(row)
            : buttress::Result<nlohmann::json>(buttress::InvalidArgument("not a JSON object"));
    if (!answer.ok()) {
      std::fprintf(stderr, "%s\n", answer.status().ToString().c_str());
      return 1;
    }
    std::puts(answer->dump().c_str());
  }
  return 0;
}
