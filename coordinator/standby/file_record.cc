#include "coordinator/standby/file_record.h"

#include <fmt/core.h>
#include <zlib.h>

#include <array>
#include <string>

namespace buttress {
namespace {

uLong Add(uLong sum, const std::string& bytes) {
  return crc32_z(sum, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
}

}  // namespace

std::uint32_t CheckOf(const v1::FollowResponse& record) {
  const std::array<std::uint64_t, 4> numbers = {record.number(),
                                                static_cast<std::uint64_t>(record.operation()),
                                                record.offset(), record.file().size()};
  const uLong sum = crc32_z(0, reinterpret_cast<const Bytef*>(numbers.data()), sizeof numbers);
  return static_cast<std::uint32_t>(Add(Add(sum, record.file()), record.data()));
}

Status CheckFollows(const v1::FollowResponse& record, std::uint64_t before) {
  if (record.check() != CheckOf(record))
    return DataLoss(fmt::format("record {} is damaged: its check fails", record.number()));
  if (record.number() == before + 1) return OkStatus();
  return DataLoss(fmt::format("record {} arrived; expected {}", record.number(), before + 1));
}

}  // namespace buttress
