#include "tests/unit/cli/explain/synthetic_dump.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

namespace buttress {
namespace {

constexpr std::uint64_t kVocabulary = 3000;

std::string TruthOf(int prompt) { return std::to_string(1000 + 7 * prompt); }

}  // namespace

std::string SyntheticDump::Word(std::uint64_t bound) {
  std::uint64_t number = random_.Below(bound) + 11;
  std::string word;
  for (; number > 0; number /= 21) word += "bcdfghjklmnpqrstvwxyz"[number % 21];
  return word;
}

// Writes a text: some words come from the prompt, because every text about a problem repeats its
// terms, and a third comes in fixed phrases.
SyntheticDump::Sample SyntheticDump::Draw(const SyntheticPrompt& prompt, int words) {
  Sample sample;
  sample.correct = random_.Uniform() < prompt.success_rate;
  for (int i = 0; i < words; ++i) {
    if (i > 0) sample.text += i % 12 == 0 ? ". " : " ";
    if (random_.Uniform() < 0.08) {
      sample.text +=
          "let x be the number of apples in basket " + std::to_string(prompt.id) + " so that";
      i += 10;
    } else {
      sample.text += Word(kVocabulary);
    }
  }
  const std::string answer =
      sample.correct ? TruthOf(prompt.id) : std::to_string(3 + random_.Below(900));
  sample.text += ". The answer is \\boxed{" + answer + "}.";
  return sample;
}

// Samples again from a policy that has nearly one text left.
SyntheticDump::Sample SyntheticDump::Vary(const Sample& base) {
  std::istringstream words(base.text);
  Sample sample;
  sample.correct = base.correct;
  std::string word;
  while (words >> word) {
    const bool change = random_.Uniform() < 0.01 && word.find('\\') == std::string::npos;
    sample.text += (sample.text.empty() ? "" : " ") + (change ? Word(kVocabulary) : word);
  }
  return sample;
}

std::vector<SyntheticDump::Sample> SyntheticDump::SampleGroup(const SyntheticPrompt& prompt) {
  std::vector<Sample> samples;
  const auto words = [&] { return 60 + static_cast<int>(random_.Below(110)); };
  const int distinct = prompt.fault == Cause::kDuplicateSamples && random_.Uniform() < 0.5 ? 2 : 1;
  Sample base = Draw(prompt, words());
  for (int i = 0; i < group_size_; ++i) {
    switch (prompt.fault) {
      case Cause::kDuplicateSamples:  // one seed, or one seed for each of two workers
        samples.push_back(i < distinct ? Draw(prompt, words())
                                       : samples[static_cast<std::size_t>(i % distinct)]);
        break;
      case Cause::kModeCollapsed:
        samples.push_back(Vary(base));
        break;
      case Cause::kTruncated: {  // the text exceeds the limit
        Sample sample = Draw(prompt, 2 * kWordLimit);
        std::size_t end = 0;
        for (int word = 0; word < kWordLimit; ++word) end = sample.text.find(' ', end + 1);
        sample.text.resize(end - random_.Below(3));
        sample.correct = false;
        samples.push_back(sample);
        break;
      }
      case Cause::kStaleWeights:  // neither weights nor seeds change
        if (last_[prompt.id].size() == static_cast<std::size_t>(group_size_))
          return last_[prompt.id];
        samples.push_back(Draw(prompt, words()));
        break;
      default:
        samples.push_back(Draw(prompt, words()));
    }
  }
  last_[prompt.id] = samples;
  return samples;
}

std::vector<double> SyntheticDump::Score(const SyntheticPrompt& prompt,
                                         const std::vector<Sample>& samples) {
  std::vector<double> scores;
  for (const Sample& sample : samples) {
    double score = sample.correct ? 1.0 : 0.0;
    if (prompt.fault == Cause::kFloatNoise) {  // equal parts, added in float32 in different orders
      float parts[] = {0.1F, 0.6F, 0.3F};
      std::swap(parts[0], parts[random_.Below(3)]);
      score = static_cast<double>((parts[0] + parts[1]) + parts[2]) + (scores.empty() ? 1e-8 : 0.0);
    }
    if (prompt.fault == Cause::kUnscorable && (random_.Uniform() < 0.9 || scores.size() % 2 == 0))
      score = std::numeric_limits<double>::quiet_NaN();
    scores.push_back(score);
  }
  return scores;
}

void SyntheticDump::AddStep(std::int64_t step, const std::vector<SyntheticPrompt>& prompts,
                            const SyntheticStep& faults) {
  for (const SyntheticPrompt& prompt : prompts) {
    const bool seen = last_.contains(prompt.id);
    const std::vector<Sample> samples = SampleGroup(prompt);
    std::vector<double> scores = Score(prompt, samples);
    Cause cause = prompt.fault;
    if (prompt.source == faults.constant_source) {
      for (double& score : scores) score = faults.constant_reward;
      cause = Cause::kVerifierConstant;
    }
    // Weights that do not change become visible at the second visit.
    if (cause != Cause::kStaleWeights || seen) truth_[{step, prompt.id}] = cause;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      nlohmann::json row = {
          {"input", "user\nProblem " + std::to_string(prompt.id) + "\nassistant\n"},
          {"output", samples[i].text},
          {"gts", TruthOf(prompt.id)},
          {"score", scores[i]},
          {"step", step},
          {"data_source", prompt.source}};
      text_ += row.dump() + "\n";
    }
  }
}

}  // namespace buttress
