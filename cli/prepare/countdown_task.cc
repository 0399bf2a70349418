#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "cli/prepare/task.h"

namespace buttress {
namespace {

constexpr int kMaxDraws = 10000;
constexpr std::int64_t kMaxCount = 16;
constexpr std::int64_t kMaxValue = 1000000000;

using Numbers = std::vector<std::int64_t>;

void Shuffle(Numbers& numbers, RandomStream& random) {
  for (std::size_t i = numbers.size(); i > 1; --i)
    std::swap(numbers[i - 1], numbers[random.Below(i)]);
}

std::string Join(const Numbers& numbers, std::string_view separator,
                 std::string_view last_separator) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0) text += i + 1 == numbers.size() ? last_separator : separator;
    text += std::to_string(numbers[i]);
  }
  return text;
}

// Returns the numbers in random order with random operators between them.
std::string RandomExpression(Numbers numbers, std::string_view operators, RandomStream& random) {
  Shuffle(numbers, random);
  std::string text;
  for (const std::int64_t number : numbers) {
    if (!text.empty()) text.push_back(operators[random.Below(operators.size())]);
    text += std::to_string(number);
  }
  return text;
}

// Pads a number with zeros, so that all targets of a task have the same length.
std::string Padded(std::int64_t value, std::size_t width) {
  std::string digits = std::to_string(value < 0 ? -value : value);
  if (digits.size() < width) digits.insert(0, width - digits.size(), '0');
  return value < 0 ? "-" + digits : digits;
}

class CountdownTask : public Task {
 public:
  explicit CountdownTask(const CountdownOptions& options) : options_(options) {
    for (const CountdownKind& kind : options_.kinds) total_share_ += kind.share;
    const std::int64_t widest =
        std::max(std::abs(options_.min_target), std::abs(options_.max_target));
    target_width_ = std::to_string(widest).size();
  }

  std::string_view name() const override { return "countdown"; }

  Result<TaskProblem> Draw(RandomStream& random) const override {
    const CountdownKind& kind = PickKind(random);
    for (int i = 0; i < kMaxDraws; ++i) {
      CountdownProblem problem{
          .numbers = DrawNumbers(kind, random), .target = 0, .operators = kind.operators};
      const std::string expression =
          RandomExpression(Subset(problem.numbers, random), kind.operators, random);
      const std::optional<std::int64_t> target = TargetOf(expression);
      if (!target) continue;
      problem.target = *target;
      return TaskProblem{
          .prompt = Prompt(problem),
          .answer = ToJson(problem),
          .canonical = CanonicalForm(problem),
          .solution = ResponseOf(options_.format, expression),
          .guess = ResponseOf(options_.format, RandomExpression(Subset(problem.numbers, random),
                                                                kind.operators, random))};
    }
    return InvalidArgument(fmt::format(
        "countdown: {} expressions over {} numbers with {} gave no target from {} to "
        "{}; widen --target-min and --target-max",
        kMaxDraws, kind.numbers, kind.operators, options_.min_target, options_.max_target));
  }

 private:
  const CountdownKind& PickKind(RandomStream& random) const {
    double left = random.Uniform() * total_share_;
    for (const CountdownKind& kind : options_.kinds) {
      left -= kind.share;
      if (left < 0) return kind;
    }
    return options_.kinds.back();  // rounding
  }

  Numbers DrawNumbers(const CountdownKind& kind, RandomStream& random) const {
    const auto values = static_cast<std::uint64_t>(options_.max_number - options_.min_number + 1);
    Numbers numbers;
    for (std::int64_t i = 0; i < kind.numbers; ++i) {
      numbers.push_back(options_.min_number + static_cast<std::int64_t>(random.Below(values)));
    }
    return numbers;
  }

  // Chooses the numbers that an expression uses.
  Numbers Subset(Numbers numbers, RandomStream& random) const {
    if (options_.use == NumberUse::kExactlyOnce || numbers.size() < 3) return numbers;
    Shuffle(numbers, random);
    numbers.resize(2 + random.Below(numbers.size() - 1));
    return numbers;
  }

  std::optional<std::int64_t> TargetOf(const std::string& text) const {
    const Result<Expression> expression = EvaluateExpression(text);
    if (!expression.ok() || expression->value.get_den() != 1) return std::nullopt;
    if (expression->value < options_.min_target || expression->value > options_.max_target)
      return std::nullopt;
    return expression->value.get_num().get_si();
  }

  std::string Prompt(const CountdownProblem& problem) const {
    if (options_.format == PromptFormat::kCompact) {
      const std::string_view comma = options_.max_number > 9 ? "," : "";
      return Join(problem.numbers, comma, comma) + ">" + Padded(problem.target, target_width_) +
             ":";
    }
    std::string operators;
    for (const char op : problem.operators)
      operators += (operators.empty() ? "" : " ") + std::string(1, op);
    const char* use = options_.use == NumberUse::kExactlyOnce ? "exactly once" : "at most once";
    return "Using the numbers " + Join(problem.numbers, ", ", " and ") + ", each " + use +
           ", and no operators but " + operators + ", write an expression that equals " +
           std::to_string(problem.target) + ". Put the expression in <answer> </answer> tags.";
  }

  const CountdownOptions options_;
  double total_share_ = 0;
  std::size_t target_width_ = 0;
};

Status InRange(std::string_view option, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value >= low && value <= high) return OkStatus();
  return InvalidArgument(fmt::format("{} = {}; expected {} to {}", option, value, low, high));
}

Status CheckKind(const CountdownKind& kind) {
  if (!(kind.share > 0))
    return InvalidArgument(fmt::format("share of a kind = {}; expected above 0", kind.share));
  BUTTRESS_RETURN_IF_ERROR(InRange("--numbers", kind.numbers, 2, kMaxCount));
  if (kind.operators.empty() || kind.operators.find_first_not_of("+-*/") != std::string::npos) {
    return InvalidArgument("--operators = '" + kind.operators + "'; expected some of + - * /");
  }
  return OkStatus();
}

}  // namespace

Result<CountdownKind> ParseCountdownKind(const std::string& text) {
  const std::size_t first = text.find(':');
  const std::size_t second = first == std::string::npos ? first : text.find(':', first + 1);
  const Status malformed =
      InvalidArgument("--mix '" + text + "'; expected SHARE:NUMBERS:OPERATORS, such as 0.3:4:+-");
  if (second == std::string::npos) return malformed;
  CountdownKind kind;
  const char* data = text.data();
  const auto share = std::from_chars(data, data + first, kind.share);
  const auto numbers = std::from_chars(data + first + 1, data + second, kind.numbers);
  if (share.ec != std::errc() || share.ptr != data + first) return malformed;
  if (numbers.ec != std::errc() || numbers.ptr != data + second) return malformed;
  kind.operators = text.substr(second + 1);
  return kind;
}

Result<std::unique_ptr<Task>> MakeCountdownTask(const CountdownOptions& options) {
  if (options.kinds.empty()) return InvalidArgument("countdown: no kind of problem is given");
  for (const CountdownKind& kind : options.kinds) BUTTRESS_RETURN_IF_ERROR(CheckKind(kind));
  BUTTRESS_RETURN_IF_ERROR(InRange("--number-min", options.min_number, 0, kMaxValue));
  BUTTRESS_RETURN_IF_ERROR(
      InRange("--number-max", options.max_number, options.min_number, kMaxValue));
  BUTTRESS_RETURN_IF_ERROR(InRange("--target-min", options.min_target, -kMaxValue, kMaxValue));
  BUTTRESS_RETURN_IF_ERROR(
      InRange("--target-max", options.max_target, options.min_target, kMaxValue));
  return std::unique_ptr<Task>(std::make_unique<CountdownTask>(options));
}

}  // namespace buttress
