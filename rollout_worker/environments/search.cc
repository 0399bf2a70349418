#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lib/base/os/file.h"
#include "lib/base/text/unicode.h"
#include "lib/verify/extract.h"
#include "rollout_worker/environments/tool.h"

namespace buttress {
namespace {

constexpr std::int64_t kMaxSearchedBytes = std::int64_t{1} << 30;
constexpr std::size_t kShownParagraphs = 3;
// The customary constants of BM25: how soon a word that repeats counts no more, and how much the
// length of a paragraph counts.
constexpr double kRepeats = 1.2;
constexpr double kLength = 0.75;

// Returns the words of a text, ASCII letters in lower case.
std::vector<std::string> WordsOf(std::string_view text) {
  std::vector<std::string> words;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = CodePointAt(text, at);
    const bool word = point.valid && IsWordCharacter(point.value);
    if (word && !inside) words.emplace_back();
    if (word) words.back() += LowerAscii(text.substr(at, point.length));
    inside = word;
    at += point.length;
  }
  return words;
}

std::vector<std::string> ParagraphsOf(std::string_view text) {
  std::vector<std::string> paragraphs(1);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1);
    const std::string_view line = text.substr(0, end + 1);
    if (!Trim(line).empty()) {
      paragraphs.back() += line;
    } else if (!paragraphs.back().empty()) {
      paragraphs.emplace_back();
    }
    text.remove_prefix(end + 1);
  }
  if (paragraphs.back().empty()) paragraphs.pop_back();
  return paragraphs;
}

class SearchIndex {
 public:
  explicit SearchIndex(std::vector<std::string> paragraphs) : paragraphs_(std::move(paragraphs)) {
    for (std::size_t i = 0; i < paragraphs_.size(); ++i) {
      const std::vector<std::string> words = WordsOf(paragraphs_[i]);
      lengths_.push_back(static_cast<double>(words.size()));
      mean_length_ += lengths_.back() / static_cast<double>(paragraphs_.size());
      for (const std::string& word : words) {
        std::vector<Use>& uses = uses_[word];
        if (uses.empty() || uses.back().paragraph != i) uses.push_back({i, 0});
        ++uses.back().count;
      }
    }
  }

  std::string Best(const std::string& query) const {
    std::unordered_map<std::size_t, double> scores;
    for (const std::string& word : WordsOf(query)) AddScores(word, scores);
    std::vector<std::pair<double, std::size_t>> order;  // the best first, then the earlier
    for (const auto& [paragraph, score] : scores) order.emplace_back(-score, paragraph);
    const std::size_t shown = std::min(kShownParagraphs, order.size());
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(shown),
                      order.end());
    std::string text;
    for (std::size_t i = 0; i < shown; ++i)
      text += (i > 0 ? "\n\n" : "") + std::string(Trim(paragraphs_[order[i].second]));
    return text;
  }

 private:
  struct Use {
    std::size_t paragraph = 0;
    double count = 0;
  };

  void AddScores(const std::string& word, std::unordered_map<std::size_t, double>& scores) const {
    const auto found = uses_.find(word);
    if (found == uses_.end()) return;
    const auto all = static_cast<double>(paragraphs_.size());
    const auto having = static_cast<double>(found->second.size());
    const double rarity = std::log(1 + (all - having + 0.5) / (having + 0.5));
    for (const Use& use : found->second) {
      const double length = 1 - kLength + kLength * lengths_[use.paragraph] / mean_length_;
      scores[use.paragraph] +=
          rarity * use.count * (kRepeats + 1) / (use.count + kRepeats * length);
    }
  }

  const std::vector<std::string> paragraphs_;
  std::vector<double> lengths_;  // in words
  double mean_length_ = 0;
  std::unordered_map<std::string, std::vector<Use>> uses_;
};

}  // namespace

Result<ToolFunction> MakeSearch(const RunSettings& run) {
  const std::string& path = run.env.search_file;
  if (path.empty())
    return InvalidArgument("run.env.search_file is empty; name the text file that is searched");
  Result<std::string> text = ReadFile(path, kMaxSearchedBytes);
  if (!text.ok()) return AsInput(text.status().Annotate("run.env.search_file"));
  std::vector<std::string> paragraphs = ParagraphsOf(ReplaceInvalidUtf8(*text));
  if (paragraphs.empty()) return InvalidArgument("run.env.search_file: " + path + " has no text");
  const auto index = std::make_shared<const SearchIndex>(std::move(paragraphs));
  return ToolFunction([index](const std::string& query, std::int64_t) -> Result<ToolResult> {
    std::string best = index->Best(query);
    if (best.empty()) return ToolResult{"no paragraph has a word of the query"};
    return ToolResult{std::move(best)};
  });
}

}  // namespace buttress
