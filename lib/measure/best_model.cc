#include "lib/measure/best_model.h"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lib/base/os/file.h"
#include "lib/base/report/log.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;

constexpr char kMarkName[] = "best.json";

std::string ReplacedFolder(const std::string& out) { return BestModelFolder(out) + ".replaced"; }

Status Remove(const std::string& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  return error ? Unavailable("cannot remove " + folder + ": " + error.message()) : OkStatus();
}

Status Rename(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  return error ? Unavailable("cannot rename " + from + " to " + to + ": " + error.message())
               : OkStatus();
}

// Ends a replacement that a crash has interrupted.
Status Recover(const std::string& out) {
  if (!fs::exists(ReplacedFolder(out))) return OkStatus();
  if (fs::exists(BestModelFolder(out))) return Remove(ReplacedFolder(out));
  return Rename(ReplacedFolder(out), BestModelFolder(out));
}

}  // namespace

std::string BestModelFolder(const std::string& out) { return JoinPath(out, "best"); }

Result<std::optional<BestMark>> ReadBest(const std::string& out) {
  const std::string path = JoinPath(BestModelFolder(out), kMarkName);
  const auto text = ReadFile(path);
  if (text.status().code() == StatusCode::kNotFound) return std::optional<BestMark>();
  if (!text.ok()) return text.status();
  const auto json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const bool whole = json.is_object() && json.contains("step") &&
                     json["step"].is_number_integer() && json.contains("by") &&
                     json["by"].is_string() && json.contains("value") && json["value"].is_number();
  if (!whole) return DataLoss(path + ": expected 'step', 'by' and 'value'; move the folder aside");
  return std::optional(BestMark{json["step"].get<std::int64_t>(), json["by"].get<std::string>(),
                                json["value"].get<double>()});
}

bool IsBetter(const BestMark& mark, const std::optional<BestMark>& best) {
  if (!std::isfinite(mark.value)) return false;
  return !best || best->by != mark.by || mark.value > best->value;
}

Status OfferBest(const std::string& out, const std::string& folder, const BestMark& mark) {
  BUTTRESS_RETURN_IF_ERROR(Recover(out));
  BUTTRESS_ASSIGN_OR_RETURN(const std::optional<BestMark> best, ReadBest(out));
  if (!IsBetter(mark, best)) return Remove(folder);
  const nlohmann::ordered_json json = {{"step", mark.step}, {"by", mark.by}, {"value", mark.value}};
  BUTTRESS_RETURN_IF_ERROR(WriteFileAtomic(JoinPath(folder, kMarkName), json.dump(2) + "\n"));
  if (fs::exists(BestModelFolder(out)))
    BUTTRESS_RETURN_IF_ERROR(Rename(BestModelFolder(out), ReplacedFolder(out)));
  BUTTRESS_RETURN_IF_ERROR(Rename(folder, BestModelFolder(out)));
  BUTTRESS_RETURN_IF_ERROR(SyncFolder(out));
  Log(kInfo, "new best model", {{"step", mark.step}, {"by", mark.by}, {"value", mark.value}});
  return Remove(ReplacedFolder(out));
}

}  // namespace buttress
