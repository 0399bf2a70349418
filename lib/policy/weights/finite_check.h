// Finds the tensor that holds NaN or infinite values.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/report/status.h"

namespace buttress {

// Whether every value of every tensor is finite. Reads each once, and waits for their device once.
bool AllFinite(const std::vector<std::pair<std::string, at::Tensor>>& tensors);

// Returns "model.norm.weight [96]: 3 NaN and 1 infinite of 96 values (and 2 more tensors)" of
// the first tensor that is not finite; empty if all are.
std::string DescribeNonFinite(const std::vector<std::pair<std::string, at::Tensor>>& tensors);

// kDataLoss if a value is not finite: "`what`: " and the description, and then `fix`.
Status CheckFinite(const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                   const std::string& what, const std::string& fix);

}  // namespace buttress
