#include "lib/page/page_file.h"

#include <absl/strings/escaping.h>
#include <absl/strings/str_replace.h>

#include "lib/base/os/file.h"
#include "lib/base/report/check.h"
#include "lib/base/text/digest.h"
#include "lib/experience/codec.h"
#include "lib/ledger/reader.h"
#include "lib/ledger/token_account.h"
#include "lib/page/assets.h"
#include "lib/rl/collapse/sources.h"

namespace buttress {
namespace {

constexpr std::string_view kStyleLink = R"(<link rel="stylesheet" href="page.css">)";
constexpr std::string_view kScriptLink = R"(<script src="page.js" defer></script>)";
constexpr std::string_view kEnd = "</body>";

// Only this script runs, and nothing is loaded.
std::string PolicyOf(std::string_view script) {
  return R"(<meta http-equiv="Content-Security-Policy" content="default-src 'none'; )"
         "style-src 'unsafe-inline'; script-src 'sha256-" +
         absl::Base64Escape(Sha256Of(script)) + R"('; base-uri 'none'; form-action 'none'">)";
}

void Replace(std::string& text, std::string_view part, const std::string& other) {
  const std::size_t at = text.find(part);
  BUTTRESS_CHECK(at != std::string::npos, "index.html has its parts");
  text.replace(at, part.size(), other);
}

}  // namespace

std::string PageFile(const nlohmann::ordered_json& data) {
  // In JSON '<' is only in strings, so the texts can neither end the element nor begin another.
  const std::string json = absl::StrReplaceAll(
      data.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace),
      {{"<", "\\u003c"}});
  const std::string head = PolicyOf(kPageJs) + "\n<style>" + std::string(kPageCss) + "</style>";
  const std::string end = "<script id=\"data\" type=\"application/json\">" + json +
                          "</script>\n<script>" + std::string(kPageJs) + "</script>\n</body>";
  std::string page(kIndexHtml);
  Replace(page, kStyleLink, head);
  Replace(page, kScriptLink, "");
  Replace(page, kEnd, end);
  return page;
}

Result<v1::GetRunStatusResponse> StatusInLedger(const RunConfig& config) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto ledger,
                            LedgerReader::Open(JoinPath(config.local.out, "ledger.db")));
  BUTTRESS_ASSIGN_OR_RETURN(const std::optional<RunRow> run, ledger->Run());
  if (!run) return FailedPrecondition("the run in " + config.local.out + " has not begun");
  BUTTRESS_ASSIGN_OR_RETURN(const auto by_source, ledger->ReportedCollapse());
  v1::GetRunStatusResponse status;
  status.set_run_name(run->run_name);
  status.set_run_id(run->run_id);
  status.set_run_state(run->finished ? v1::RUN_STATE_FINISHED : v1::RUN_STATE_STOPPED);
  status.set_step(run->committed_step);
  status.set_total_steps(static_cast<std::uint64_t>(config.run.steps));
  status.set_checkpoint_step(run->checkpoint_step);
  status.set_learner_epoch(run->learner_epoch);
  status.set_coordinator_epoch(run->coordinator_epoch);
  CollapseCounts all;
  SourceNames names;
  for (const auto& [source, counts] : ReportedSources(by_source, names)) {
    (*status.mutable_collapse_by_source())[source] = ToProto(counts);
    all.Add(counts);
  }
  *status.mutable_collapse() = ToProto(all);
  BUTTRESS_ASSIGN_OR_RETURN(const LedgerSnapshot snapshot, ledger->Load());
  *status.mutable_tokens() = ToProto(AccountOf(snapshot));
  return status;
}

}  // namespace buttress
