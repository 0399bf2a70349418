// The weights of TRL's reward functions, which its dump does not name, from the advantages, which
// it does. Within a group the advantages are an affine function of the weighted sum, whatever
// scale_rewards is.
#pragma once

#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace buttress {

// Adds up, over the groups of a dump, how well sums of its columns follow the advantages. Not
// thread-safe.
class AdvantageFit {
 public:
  // Adds a row of TRL: adjacent rows of one step and prompt are a group. `columns` are its numbers
  // except step and advantage.
  void Add(const nlohmann::json& row, const std::map<std::string, double>& columns);

  struct Weights {
    bool known = false;     // whether exactly one sum gives the advantages
    bool excluded = false;  // whether no sum gives them
    // Of the columns that differ within groups, if known: the largest is 1 or -1. A column that
    // is no reward, as those of log_extra, has 0.
    std::map<std::string, double> of_column = {};
  };

  // Ends the last group. Pure besides.
  Weights Finish();

 private:
  struct Completion {
    std::map<std::string, double> columns;
    double advantage = 0;
  };

  void AddGroup();

  double& Moment(const std::string& a, const std::string& b) { return moments_[{a, b}]; }

  nlohmann::json step_, prompt_;  // of the rows of group_
  std::vector<Completion> group_;
  // Sums over groups: of products of centred columns, of what of them the advantages do not
  // explain, and of products with the advantages.
  std::map<std::pair<std::string, std::string>, double> moments_;
  std::map<std::string, double> spread_, along_;
};

}  // namespace buttress
