#include "lib/base/text/random.h"

#include <cmath>
#include <numbers>

#include "lib/base/report/check.h"

namespace buttress {
namespace {

constexpr std::uint32_t kMultiplier0 = 0xD2511F53u;
constexpr std::uint32_t kMultiplier1 = 0xCD9E8D57u;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9u;
constexpr std::uint32_t kWeyl1 = 0xBB67AE85u;

double ToUnit(std::uint32_t high, std::uint32_t low) {
  const std::uint64_t bits = (static_cast<std::uint64_t>(high) << 32 | low) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

std::array<double, 2> NormalPair(RandomKey key, std::uint64_t block) {
  const auto bits = Philox(key, block);
  const double u = 1.0 - ToUnit(bits[0], bits[1]);  // in (0, 1], so that the logarithm is finite
  const double angle = 2.0 * std::numbers::pi * ToUnit(bits[2], bits[3]);
  const double radius = std::sqrt(-2.0 * std::log(u));
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

}  // namespace

std::array<std::uint32_t, 4> Philox(RandomKey key, std::uint64_t counter) {
  std::array<std::uint32_t, 4> c = {
      static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32),
      static_cast<std::uint32_t>(key.stream), static_cast<std::uint32_t>(key.stream >> 32)};
  auto k0 = static_cast<std::uint32_t>(key.seed);
  auto k1 = static_cast<std::uint32_t>(key.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = static_cast<std::uint64_t>(kMultiplier0) * c[0];
    const std::uint64_t p1 = static_cast<std::uint64_t>(kMultiplier1) * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return c;
}

double UniformAt(RandomKey key, std::uint64_t index) {
  const auto bits = Philox(key, index);
  return ToUnit(bits[0], bits[1]);
}

double NormalAt(RandomKey key, std::uint64_t index) {
  return NormalPair(key, index / 2)[index % 2];
}

void FillNormals(RandomKey key, std::span<double> normals) {
  for (std::size_t i = 0; i < normals.size(); i += 2) {
    const auto pair = NormalPair(key, i / 2);
    normals[i] = pair[0];
    if (i + 1 < normals.size()) normals[i + 1] = pair[1];
  }
}

std::uint64_t MixSeed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a + 0x9E3779B97F4A7C15u * (b + 1);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

std::uint64_t HashText(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

std::uint64_t RandomStream::Below(std::uint64_t bound) {
  BUTTRESS_CHECK(bound > 0, "Below needs a positive bound");
  // The modulo of a number in an incomplete last interval would favour small values.
  const std::uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
  while (true) {
    const auto bits = Philox(key_, next_++);
    const std::uint64_t x = static_cast<std::uint64_t>(bits[0]) << 32 | bits[1];
    if (x < limit) return x % bound;
  }
}

}  // namespace buttress
