// Conversion of unsigned protobuf numbers to the signed ones of our values.
#pragma once

#include <google/protobuf/repeated_field.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"

namespace buttress {

// kInvalidArgument, with the name of the field, for a number that `out` cannot hold.
Status Narrow(std::string_view field, std::uint32_t value, std::int32_t& out);
Status Narrow(std::string_view field, std::uint64_t value, std::int64_t& out);
Status Narrow(std::string_view field, const google::protobuf::RepeatedField<std::uint32_t>& values,
              std::vector<std::int32_t>& out);

}  // namespace buttress
