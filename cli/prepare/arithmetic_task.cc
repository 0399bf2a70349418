#include <fmt/core.h>

#include "cli/prepare/task.h"

namespace buttress {
namespace {

constexpr std::int64_t kMostDigits = 9;  // products stay below 2^63

std::int64_t Apply(std::int64_t left, char op, std::int64_t right) {
  return op == '+' ? left + right : op == '-' ? left - right : left * right;
}

std::string Write(std::int64_t left, char op, std::int64_t right) {
  return std::to_string(left) + op + std::to_string(right);
}

class ArithmeticTask : public Task {
 public:
  explicit ArithmeticTask(const ArithmeticOptions& options) : options_(options) {
    for (std::int64_t i = 0; i < options.digits; ++i) operands_ *= 10;
  }

  std::string_view name() const override { return "arithmetic"; }

  Result<TaskProblem> Draw(RandomStream& random) const override {
    const auto left = static_cast<std::int64_t>(random.Below(operands_));
    const auto right = static_cast<std::int64_t>(random.Below(operands_));
    const char op = options_.operators[random.Below(options_.operators.size())];
    const std::string answer = std::to_string(Apply(left, op, right));
    const bool ordered = op == '-' || left <= right;
    return TaskProblem{.prompt = Prompt(Write(left, op, right)),
                       .answer = answer,
                       .canonical = ordered ? Write(left, op, right) : Write(right, op, left),
                       .solution = ResponseOf(options_.format, answer),
                       .guess = ResponseOf(options_.format, OtherDigits(answer, random))};
  }

 private:
  std::string Prompt(const std::string& expression) const {
    if (options_.format == PromptFormat::kCompact) return expression + "=";
    return "What is " + expression + "? Put the number in <answer> </answer> tags.";
  }

  // Returns random digits of the same length.
  static std::string OtherDigits(std::string number, RandomStream& random) {
    bool first = true;
    for (char& c : number) {
      if (c == '-') continue;
      const bool leading = first && number.size() > 1;
      c = static_cast<char>(leading ? '1' + random.Below(9) : '0' + random.Below(10));
      first = false;
    }
    return number;
  }

  const ArithmeticOptions options_;
  std::uint64_t operands_ = 1;
};

}  // namespace

Result<std::unique_ptr<Task>> MakeArithmeticTask(const ArithmeticOptions& options) {
  if (options.digits < 1 || options.digits > kMostDigits) {
    return InvalidArgument(
        fmt::format("--digits = {}; expected 1 to {}", options.digits, kMostDigits));
  }
  if (options.operators.empty() ||
      options.operators.find_first_not_of("+-*") != std::string::npos) {
    return InvalidArgument("--operators = '" + options.operators + "'; expected some of + - *");
  }
  return std::unique_ptr<Task>(std::make_unique<ArithmeticTask>(options));
}

}  // namespace buttress
