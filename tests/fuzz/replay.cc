// Drives a fuzz target without libFuzzer: the seeds as they are, then COUNT inputs made of them by a mutator whose
// random numbers are always the same. So every build, sanitized or not, tries the same inputs. One that takes seconds
// of the processor's time fails.
//
//     fuzz_TARGET SEEDS_FOLDER COUNT
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr std::size_t kLongest = 4096;
constexpr double kMaxSeconds = 10;

void try_input(const std::string& input) {
  const std::clock_t begun = std::clock();
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  const double seconds = static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC;
  if (seconds < kMaxSeconds) return;
  std::fprintf(stderr, "an input of %zu bytes took %.1f s\n", input.size(), seconds);
  std::abort();
}

class Mutator {
 public:
  explicit Mutator(const std::vector<std::string>& seeds) : seeds_(seeds) {}

  std::string next() {
    std::string text = seeds_[below(seeds_.size())];
    for (std::size_t changes = 1 + below(4); changes > 0; --changes) change(text);
    if (text.size() > kLongest) text.resize(kLongest);
    return text;
  }

 private:
  std::size_t below(std::size_t bound) { return random_() % std::max<std::size_t>(bound, 1); }

  std::string some_part(const std::string& text) {
    const std::size_t from = below(text.size());
    return text.substr(from, 1 + below(std::min<std::size_t>(text.size() - from, 40)));
  }

  void change(std::string& text) {
    const std::size_t place = below(text.size() + 1);
    const char letters[] =
        "{}[]\",:\\<>/|\n\r \0\xff\x80"
        "0-9eE.nt";
    switch (below(6)) {
      case 0:
        if (place < text.size()) text[place] = static_cast<char>(below(256));
        break;
      case 1:
        text.insert(place, 1, letters[below(sizeof letters - 1)]);
        break;
      case 2:
        text.erase(place, 1 + below(8));
        break;
      case 3:
        text.insert(place, some_part(seeds_[below(seeds_.size())]));
        break;
      case 4:
        text.insert(place, some_part(text));
        break;
      default:
        text = text.substr(0, place) + some_part(seeds_[below(seeds_.size())]);
    }
  }

  const std::vector<std::string>& seeds_;
  std::mt19937 random_{2026};
};

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    std::fputs("usage: fuzz_TARGET SEEDS_FOLDER COUNT\n", stderr);
    return 2;
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(arguments[1])) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<std::string> seeds;
  for (const auto& file : files) {
    std::ifstream stream(file, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  if (seeds.empty()) {
    std::fprintf(stderr, "%s holds no seeds\n", arguments[1]);
    return 2;
  }
  for (const std::string& seed : seeds) try_input(seed);
  Mutator mutator(seeds);
  const long wanted = std::strtol(arguments[2], nullptr, 10);
  for (long i = 0; i < wanted; ++i) {
    const std::string input = mutator.next();
    // What fails is found again: it lies in a file of this name until the next run.
    std::ofstream("last_input_of_" + std::filesystem::path(arguments[0]).filename().string(), std::ios::binary)
        << input;
    try_input(input);
  }
  std::printf("%zu seeds and %ld inputs made of them\n", seeds.size(), wanted);
  return 0;
}
