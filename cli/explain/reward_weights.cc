#include "cli/explain/reward_weights.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace buttress {
namespace {

using Matrix = std::vector<std::vector<double>>;

constexpr std::size_t kMaxColumns = 32;
// Shares of the variance within groups. Advantages are float32 numbers, so a sum that gives them
// leaves less than 1e-9; another that leaves so little makes the weights ambiguous.
constexpr double kExplained = 1e-7, kOther = 1e-4;
constexpr double kNoReward = 1e-4;  // of the largest contribution
constexpr double kRounded = 2e-6;   // weights are shown with four digits where they are so near

void Rotate(Matrix& a, Matrix& vectors, std::size_t p, std::size_t q) {
  const double theta = 0.5 * std::atan2(2 * a[p][q], a[q][q] - a[p][p]);
  const double c = std::cos(theta), s = std::sin(theta);
  const auto turn = [&](double& x, double& y) {
    const double first = c * x - s * y;
    y = s * x + c * y;
    x = first;
  };
  for (auto& row : a) turn(row[p], row[q]);
  for (std::size_t k = 0; k < a.size(); ++k) turn(a[p][k], a[q][k]);
  for (auto& row : vectors) turn(row[p], row[q]);
}

// Diagonalises the symmetric matrix by Jacobi's rotations; returns the eigenvectors as columns.
Matrix Diagonalize(Matrix& a) {
  Matrix vectors(a.size(), std::vector<double>(a.size()));
  for (std::size_t i = 0; i < a.size(); ++i) vectors[i][i] = 1;
  for (int sweep = 0; sweep < 30; ++sweep) {
    for (std::size_t p = 0; p < a.size(); ++p)
      for (std::size_t q = p + 1; q < a.size(); ++q)
        if (a[p][q] != 0) Rotate(a, vectors, p, q);
  }
  return vectors;
}

double Rounded(double weight) {
  if (weight == 0) return 0;
  const double unit = std::pow(10.0, std::floor(std::log10(std::abs(weight))) - 3);
  const double near = std::round(weight / unit) * unit;
  return std::abs(near - weight) <= kRounded * std::abs(weight) ? near : weight;
}

}  // namespace

void AdvantageFit::Add(const nlohmann::json& row, const std::map<std::string, double>& columns) {
  const auto step = row.find("step"), prompt = row.find("prompt"), own = row.find("advantage");
  if (step == row.end() || prompt == row.end() || own == row.end() || !own->is_number()) return;
  if (*step != step_ || *prompt != prompt_) {
    AddGroup();
    step_ = *step;
    prompt_ = *prompt;
  }
  group_.push_back({columns, own->get<double>()});
}

void AdvantageFit::AddGroup() {
  // A completion without any reward has the advantage 0, whatever else is logged of it. An affine
  // relation holds for the others alone as well.
  std::map<std::string, double> all;
  for (const Completion& c : group_) all.insert(c.columns.begin(), c.columns.end());
  std::erase_if(group_, [&](const Completion& c) {
    return c.advantage == 0 && c.columns.size() < all.size();
  });
  const auto count = static_cast<double>(group_.size());
  std::vector<double> advantages;
  for (const Completion& c : group_) advantages.push_back(c.advantage);
  std::map<std::string, std::vector<double>> columns;
  for (const auto& [name, unused] : all) {
    for (const Completion& c : group_) {
      const auto value = c.columns.find(name);
      columns[name].push_back(value == c.columns.end() ? 0.0 : value->second);
    }
  }
  const auto center = [&](std::vector<double>& values) {
    const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
    for (double& value : values) value -= mean;
  };
  const auto dot = [](const std::vector<double>& a, const std::vector<double>& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  };
  if (group_.size() > 1) {
    center(advantages);
    for (auto& [name, values] : columns) center(values);
    const double square = dot(advantages, advantages);
    for (const auto& [a, x] : columns) {
      spread_[a] += dot(x, x);
      along_[a] += dot(x, advantages);
      for (const auto& [b, y] : columns) {
        const double explained =
            square > 0 ? dot(x, advantages) * dot(y, advantages) / square : 0.0;
        Moment(a, b) += dot(x, y) - explained;
      }
    }
  }
  group_.clear();
}

AdvantageFit::Weights AdvantageFit::Finish() {
  AddGroup();
  std::vector<std::string> names;
  for (const auto& [name, spread] : spread_)
    if (spread > 0) names.push_back(name);
  if (names.empty() || names.size() > kMaxColumns) return {};
  Matrix rest(names.size(), std::vector<double>(names.size()));
  for (std::size_t i = 0; i < names.size(); ++i)
    for (std::size_t j = 0; j < names.size(); ++j)
      rest[i][j] = Moment(names[i], names[j]) / std::sqrt(spread_[names[i]] * spread_[names[j]]);
  const Matrix vectors = Diagonalize(rest);
  std::vector<std::size_t> order(names.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](std::size_t i) { return rest[i][i]; });
  Weights weights{.excluded = rest[order[0]][order[0]] > kOther};
  weights.known = rest[order[0]][order[0]] < kExplained &&
                  (names.size() == 1 || rest[order[1]][order[1]] > kOther);
  if (!weights.known) return weights;
  double largest = 0, share = 0, along = 0;
  for (const auto& row : vectors) share = std::max(share, std::abs(row[order[0]]));
  for (std::size_t i = 0; i < names.size(); ++i) {
    const double of_spread = vectors[i][order[0]];
    const double weight =
        std::abs(of_spread) < kNoReward * share ? 0.0 : of_spread / std::sqrt(spread_[names[i]]);
    weights.of_column[names[i]] = weight;
    largest = std::max(largest, std::abs(weight));
    along += weight * along_[names[i]];
  }
  for (auto& [name, weight] : weights.of_column)
    weight = Rounded(weight / std::copysign(largest, along));
  return weights;
}

}  // namespace buttress
