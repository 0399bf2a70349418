// The interface of libbuttress_arrow.so to the programs, which are of the same build.
#pragma once

#include <string>

#include "lib/base/report/status.h"
#include "lib/data/dataset.h"

namespace buttress {

// Hands each row of a file to the sink. kInvalidArgument for a file that Arrow cannot read and for
// columns that JSON has no form for.
using ArrowReadRows = Status (*)(const std::string& path, const RowSink& sink);

inline constexpr char kArrowReadRowsSymbol[] = "ButtressArrowReadRows";

}  // namespace buttress
