// Counter-based random numbers: Philox4x32-10 of Salmon et al., "Parallel Random Numbers: As Easy
// as 1, 2, 3" (SC 2011). Number n of a key is computed without the numbers before it, so the random
// numbers of a sample depend on its key alone. Every free function here is pure.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

namespace buttress {

struct RandomKey {
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;

  bool operator==(const RandomKey&) const = default;
};

// Returns block `counter` of `key`, 128 random bits.
std::array<std::uint32_t, 4> Philox(RandomKey key, std::uint64_t counter);

// Returns number `index` of `key`, uniform in [0, 1) with 53 random bits.
double UniformAt(RandomKey key, std::uint64_t index);

// Returns number `index` of `key`, standard normal, by the Box-Muller transform of block index / 2:
// an even index takes the cosine, an odd one the sine.
double NormalAt(RandomKey key, std::uint64_t index);

// Fills normals[i] with NormalAt(key, i); computes each block once for its two numbers.
void FillNormals(RandomKey key, std::span<double> normals);

// Combines two values into a seed with the finaliser of SplitMix64.
std::uint64_t MixSeed(std::uint64_t a, std::uint64_t b);

// The 64-bit FNV-1a hash, which turns ids into seeds. It does not protect integrity.
std::uint64_t HashText(std::string_view text);

// The successive numbers of one key. Not thread-safe.
class RandomStream {
 public:
  explicit RandomStream(RandomKey key) : key_(key) {}

  double Uniform() { return UniformAt(key_, next_++); }

  double Normal() { return NormalAt(key_, next_++); }

  // Returns an integer that is uniform in [0, bound). REQUIRES: bound > 0.
  std::uint64_t Below(std::uint64_t bound);

 private:
  RandomKey key_;
  std::uint64_t next_ = 0;
};

// Puts `items` in a random order (Fisher and Yates).
template <class T>
void Shuffle(std::span<T> items, RandomStream& random) {
  for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random.Below(i)]);
}

}  // namespace buttress
