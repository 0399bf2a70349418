// Opens libbuttress_arrow.so at run time. It alone links Arrow, so that the programs start on
// machines without it.
#pragma once

#include <string>

#include "lib/base/report/status.h"
#include "lib/data/dataset.h"

namespace buttress {

// Opens the library unless it is open. kFailedPrecondition says what is missing, and how to convert
// the file `path` without it. Thread-safe.
Status LoadArrow(const std::string& path);

// Reads a file of Parquet, or of Arrow's IPC stream or file format. A damaged file can crash the
// process. Errors: those of LoadArrow, and kInvalidArgument. Thread-safe.
Status ReadColumns(const std::string& path, const RowSink& sink);

}  // namespace buttress
