// Table: rows of words in aligned columns, for people. The first column stands left, all others right.
#pragma once

#include <string>
#include <vector>

namespace octavo {

class Table {
 public:
  explicit Table(std::vector<std::string> header);

  void add(std::vector<std::string> row);  // as long as the header
  std::string text() const;                // lines, each ended

 private:
  std::vector<std::vector<std::string>> rows_;
};

std::string fixed(double value, int digits);        // 12.50
std::string significant(double value, int digits);  // 1.25e-05

}  // namespace octavo
