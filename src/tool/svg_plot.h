// SvgPlot: points and lines over linear axes as one inline <svg> element. Self-contained: no scripts, no fonts, no
// links. Every text is escaped, every number finite or left out.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace octavo {

struct PlotSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;  // (x, y)
  std::vector<std::pair<double, double>> line;    // of the fit, or empty: the points are joined
};

struct SvgPlot {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<PlotSeries> series;

  std::string svg() const;
};

std::string escaped_html(const std::string& text);
// Round steps (1, 2 or 5 times a power of ten) from 0 to at least `most`.
std::vector<double> axis_ticks(double most);

}  // namespace octavo
