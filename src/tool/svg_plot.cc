#include "tool/svg_plot.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "terminal/table.h"

namespace octavo {
namespace {

constexpr double kWidth = 720, kHeight = 400;
constexpr double kLeft = 70, kRight = 20, kTop = 40, kBottom = 55;
constexpr std::array<const char*, 8> kColors = {"#1f6fb4", "#d1495b", "#2e8b57", "#8d5fb0",
                                                "#c77c11", "#3f3f3f", "#0f9aa8", "#a0522d"};

std::string attribute(const char* name, double value) {
  return std::string(" ") + name + "=\"" + fixed(value, 1) + "\"";
}

std::string text_at(double x, double y, const std::string& anchor, const std::string& text,
                    const std::string& more = "") {
  return "<text" + attribute("x", x) + attribute("y", y) + " text-anchor=\"" + anchor + "\"" + more + ">" +
         escaped_html(text) + "</text>\n";
}

// From numbers to places on the page.
struct Frame {
  double most_x = 1;
  double most_y = 1;
  double x(double value) const { return kLeft + value / most_x * (kWidth - kLeft - kRight); }
  double y(double value) const { return kHeight - kBottom - value / most_y * (kHeight - kTop - kBottom); }
};

std::string polyline(const Frame& frame, const std::vector<std::pair<double, double>>& points, const char* color) {
  std::string places;
  for (const auto& [x, y] : points)
    if (std::isfinite(x) && std::isfinite(y)) places += fixed(frame.x(x), 1) + "," + fixed(frame.y(y), 1) + " ";
  if (places.empty()) return "";
  return "<polyline points=\"" + places + "\" fill=\"none\" stroke=\"" + color + "\" stroke-width=\"1.5\"/>\n";
}

std::string axes(const Frame& frame, const std::vector<double>& x_ticks, const std::vector<double>& y_ticks) {
  std::string text;
  const auto line = [&](double x1, double y1, double x2, double y2) {
    text += "<line" + attribute("x1", x1) + attribute("y1", y1) + attribute("x2", x2) + attribute("y2", y2) +
            " stroke=\"#ddd\"/>\n";
  };
  for (const double x : x_ticks) {
    line(frame.x(x), frame.y(0), frame.x(x), frame.y(frame.most_y));
    text += text_at(frame.x(x), frame.y(0) + 18, "middle", significant(x, 6));
  }
  for (const double y : y_ticks) {
    line(frame.x(0), frame.y(y), frame.x(frame.most_x), frame.y(y));
    text += text_at(frame.x(0) - 8, frame.y(y) + 4, "end", significant(y, 6));
  }
  return text;
}

std::string drawn(const Frame& frame, const PlotSeries& series, std::size_t index) {
  const char* color = kColors[index % kColors.size()];
  std::string text = polyline(frame, series.line.empty() ? series.points : series.line, color);
  for (const auto& [x, y] : series.points)
    if (std::isfinite(x) && std::isfinite(y))
      text += "<circle" + attribute("cx", frame.x(x)) + attribute("cy", frame.y(y)) + " r=\"3.5\" fill=\"" + color +
              "\"/>\n";
  const double y = kTop + 14 + 18 * static_cast<double>(index);
  text += "<circle" + attribute("cx", kLeft + 14) + attribute("cy", y - 4) + " r=\"4\" fill=\"" + color + "\"/>\n";
  return text + text_at(kLeft + 24, y, "start", series.name);
}

}  // namespace

std::string escaped_html(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '"')
      result += "&quot;";
    else
      result += c;
  }
  return result;
}

std::vector<double> axis_ticks(double most) {
  if (!(most > 0) || !std::isfinite(most)) most = 1;
  const double raw = most / 5;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0})
    if (factor * power >= raw * (1 - 1e-9)) step = factor * power;
  std::vector<double> ticks = {0};
  while (ticks.back() < most * (1 - 1e-9)) ticks.push_back(static_cast<double>(ticks.size()) * step);
  return ticks;
}

std::string SvgPlot::svg() const {
  double most_x = 0;
  double most_y = 0;
  for (const PlotSeries& one : series) {
    for (const auto* points : {&one.points, &one.line}) {
      for (const auto& [x, y] : *points) {
        if (!std::isfinite(x) || !std::isfinite(y)) continue;
        most_x = std::max(most_x, x);
        most_y = std::max(most_y, y);
      }
    }
  }
  const std::vector<double> x_ticks = axis_ticks(most_x);
  const std::vector<double> y_ticks = axis_ticks(most_y);
  const Frame frame{x_ticks.back(), y_ticks.back()};
  std::string text = "<svg viewBox=\"0 0 " + fixed(kWidth, 0) + " " + fixed(kHeight, 0) + "\" role=\"img\">\n";
  text += text_at(kWidth / 2, 22, "middle", title, " font-weight=\"bold\"");
  text += axes(frame, x_ticks, y_ticks);
  text += text_at((kLeft + kWidth - kRight) / 2, kHeight - 12, "middle", x_label);
  text += text_at(16, kHeight / 2, "middle", y_label, " transform=\"rotate(-90 16 " + fixed(kHeight / 2, 0) + ")\"");
  for (std::size_t i = 0; i < series.size(); ++i) text += drawn(frame, series[i], i);
  return text + "</svg>\n";
}

}  // namespace octavo
