// The difference of two files of weights, which is small where few words of 16 bits change: with a
// learning rate of 1e-6 most values of bfloat16 stay as they are from one step to the next.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lib/base/report/status.h"

namespace buttress {

// Returns what ApplyChanges makes `next` of `base` from, if that takes fewer bytes than `next`.
// For each word that changes it is the number of equal words before it and the difference, modulo
// 2^16 and closest to 0, both as variable-length integers: about two bytes.
// REQUIRES: the sizes are equal.
std::optional<std::string> EncodeChanges(std::string_view base, std::string_view next);

// Applies changes to `bytes`, which were the base. kDataLoss if they do not fit its size.
Status ApplyChanges(std::string_view changes, std::string& bytes);

}  // namespace buttress
