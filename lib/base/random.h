// Counter-based random numbers (Philox4x32-10; Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC11): the n-th number of a key can be had without the ones before it, so a sample's
// stream depends on nothing but its key.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace buttress {

struct RandomKey {
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;

  bool operator==(const RandomKey&) const = default;
};

// 128 random bits for block `counter` of `key`. Pure.
std::array<std::uint32_t, 4> Philox(RandomKey key, std::uint64_t counter);

// Uniform in [0, 1) with 53 bits, number `index` of `key`. Pure.
double UniformAt(RandomKey key, std::uint64_t index);

// Standard normal, number `index` of `key`: Box-Muller on block index / 2, the cosine's for an even
// index, the sine's for an odd one. Pure.
double NormalAt(RandomKey key, std::uint64_t index);

// The same for numbers 0, 1, ..., in half the time.
void FillNormals(RandomKey key, std::span<double> normals);

// Mixes values into one key part (SplitMix64 finaliser).
std::uint64_t MixSeed(std::uint64_t a, std::uint64_t b);

// FNV-1a, for turning ids into seeds; not for integrity.
std::uint64_t HashText(std::string_view text);

// Successive numbers of one key. Not thread-safe.
class RandomStream {
 public:
  explicit RandomStream(RandomKey key) : key_(key) {}

  double Uniform() { return UniformAt(key_, next_++); }

  double Normal() { return NormalAt(key_, next_++); }

  // Uniform integer in [0, bound). REQUIRES: bound > 0.
  std::uint64_t Below(std::uint64_t bound);

 private:
  RandomKey key_;
  std::uint64_t next_ = 0;
};

}  // namespace buttress
