#include "app/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <sstream>

#include "app/flag_rows.h"
#include "base/log.h"
#include "base/strings.h"

namespace octavo {
namespace {

enum class ModelUse { none, optional, required };

struct CommandRow {
  Command command;
  const char* words;  // "eval logits"
  const char* help;
  ModelUse model;
};

constexpr std::array<CommandRow, 16> kCommands = {{
    {Command::run, "run", "Answer a prompt, or chat in the terminal", ModelUse::optional},
    {Command::chat, "chat", "Chat in the terminal with a running server", ModelUse::none},
    {Command::serve, "serve", "Serve a model to clients of the OpenAI and vLLM APIs", ModelUse::optional},
    {Command::inspect, "inspect", "Say what a checkpoint is and what octavo makes of it", ModelUse::required},
    {Command::eval_logits, "eval logits", "Write the logits of every position of a list of token ids",
     ModelUse::required},
    {Command::eval_nll, "eval nll", "Say how likely the model finds a text", ModelUse::required},
    {Command::eval_kld, "eval kld", "Say what a cache dtype costs in quality, by how far its answers diverge",
     ModelUse::required},
    {Command::bench_latency, "bench latency", "Measure the times to first token and between tokens",
     ModelUse::required},
    {Command::bench_sweep, "bench sweep", "The same over contexts up to the longest, with fitted costs",
     ModelUse::required},
    {Command::bench_throughput, "bench throughput", "Measure many requests at once", ModelUse::required},
    {Command::bench_verbs, "bench verbs", "Say where the time of a step goes", ModelUse::required},
    {Command::bench_serve, "bench serve", "Measure a running server", ModelUse::none},
    {Command::bench_kernels, "bench kernels", "Run every kernel of the GPU's wing at fixed shapes", ModelUse::none},
    {Command::advise, "advise", "Say what this octavo is made of", ModelUse::none},
    {Command::tokenize, "tokenize", "Text on stdin to token ids, and back", ModelUse::required},
    {Command::render_template, "template", "Messages (JSON on stdin) to the prompt that the model sees",
     ModelUse::required},
}};
constexpr const char* kModelHelp =
    "a directory with config.json and safetensors, a .gguf file, or org/name from the local Hugging Face cache";
constexpr std::string_view kSkipLayers = "--kv-cache-dtype-skip-layers";
constexpr std::array<std::string_view, 3> kBenchServeLists = {"--goodput", "--metadata", "--header"};

std::string model_words(ModelUse use) {
  return use == ModelUse::none ? "" : use == ModelUse::required ? " MODEL" : " [MODEL]";
}

// vLLM's short names of more than a letter, which CLI11 does not know.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kShortNames = {
    {{"-tp", "--tensor-parallel-size"},
     {"-pp", "--pipeline-parallel-size"},
     {"-dp", "--data-parallel-size"},
     {"-dcp", "--decode-context-parallel-size"}}};

// "--kv_cache_dtype=fp8" -> "--kv-cache-dtype=fp8", "-tp=2" -> "--tensor-parallel-size=2"; values are left alone.
std::string with_dashes(std::string argument) {
  for (const auto& [name, whole] : kShortNames)
    if (argument == name || argument.starts_with(std::string(name) + "=")) argument.replace(0, name.size(), whole);
  if (!argument.starts_with("--")) return argument;
  const std::size_t end = std::min(argument.find('='), argument.size());
  std::replace(argument.begin(), argument.begin() + static_cast<std::ptrdiff_t>(end), '_', '-');
  return argument;
}

bool looks_like_layers(const std::string& argument) {
  const auto layer_char = [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '-' || c == ',' || c == ' ';
  };
  const bool indices = std::all_of(argument.begin(), argument.end(), layer_char) && argument != "-" && argument != "--";
  return indices || argument == "sliding_window" || argument == "full_attention";
}

// Flags with several values take all words up to the next flag: each word with the flag's name of its own.
std::vector<std::string> repeat_list_flags(const std::vector<std::string>& arguments) {
  std::vector<std::string> result;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    result.push_back(arguments[i]);
    if (std::find(kBenchServeLists.begin(), kBenchServeLists.end(), with_dashes(arguments[i])) ==
        kBenchServeLists.end())
      continue;
    for (bool first = true; i + 1 < arguments.size() && !arguments[i + 1].starts_with("-"); first = false) {
      if (!first) result.push_back(result[result.size() - 2]);
      result.push_back(arguments[++i]);
    }
  }
  return result;
}

// The flags with several values, of which some begin with a dash: they are joined before CLI11 sees them. All that
// follows --served-model-name is a name if MODEL was said before.
std::vector<std::string> join_layer_lists(const std::vector<std::string>& arguments) {
  std::vector<std::string> result;
  const bool model_first = arguments.size() > 1 && arguments[0] == "serve" && !arguments[1].starts_with("-");
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    result.push_back(with_dashes(arguments[i]));
    if (model_first && result.back() == "--served-model-name" && i + 1 < arguments.size()) {
      result.back() += "=" + arguments[++i];
      while (i + 1 < arguments.size() && !arguments[i + 1].starts_with("-")) result.back() += "," + arguments[++i];
      continue;
    }
    const bool equals = result.back().starts_with(std::string(kSkipLayers) + "=");
    if (!equals && (result.back() != kSkipLayers || i + 1 == arguments.size())) continue;
    if (!equals) result.back() += "=" + arguments[++i];
    while (i + 1 < arguments.size() && looks_like_layers(arguments[i + 1])) result.back() += "," + arguments[++i];
  }
  return result;
}

std::vector<std::string> first_words() {
  std::vector<std::string> words;
  for (const CommandRow& row : kCommands) {
    const std::string word(split(row.words, " ").front());
    if (words.empty() || words.back() != word) words.push_back(word);
  }
  return words;
}

// Of "eval": logits, nll, kld. None where the first word is the command.
std::vector<std::string> second_words(const std::string& first) {
  std::vector<std::string> words;
  for (const CommandRow& row : kCommands) {
    const auto both = split(row.words, " ");
    if (both.size() == 2 && both[0] == first) words.emplace_back(both[1]);
  }
  return words;
}

Status unknown(const std::string& kind, const std::string& name, const std::vector<std::string>& known) {
  const auto close = nearest(name, known);
  return Error(kind + " " + in_quotes(name) + " is not known" +
               (close ? "; did you mean " + *close + "?" : "; known: " + join(known, ", ")));
}

Status check_command(const std::vector<std::string>& arguments) {
  const std::vector<std::string> known = first_words();
  if (arguments.empty()) return Error("no command was given; known: " + join(known, ", ") + " (octavo --help)");
  const std::string& first = arguments.front();
  if (first == "--help" || first == "-h" || first == "--version") return {};
  if (first.starts_with("-")) return unknown("flag", first, {"--help", "--version"});
  if (std::find(known.begin(), known.end(), first) == known.end()) return unknown("command", first, known);
  const std::vector<std::string> inner = second_words(first);
  if (inner.empty()) return {};
  if (arguments.size() < 2) return Error(first + " needs to know what: " + join(inner, ", "));
  if (!arguments[1].starts_with("-") && std::find(inner.begin(), inner.end(), arguments[1]) == inner.end())
    return unknown(first + " command", arguments[1], inner);
  return {};
}

std::string help_of(const FlagRow& row) {
  if (row.effect == Effect::no_effect) return "accepted, no effect: " + row.because;
  if (row.effect == Effect::refused) return "refused: " + row.because;
  return row.help + " [" + row.standard + "]";
}

// One command's parser and what it found.
struct CommandParser {
  const CommandRow* row = nullptr;
  CLI::App* app = nullptr;
  std::vector<std::pair<const FlagRow*, CLI::Option*>> flags;
  CLI::Option* model = nullptr;  // null: the command takes none
};

CommandParser add_command(CLI::App& root, const CommandRow& row, const std::vector<FlagRow>& rows) {
  CommandParser parser{&row, &root, {}, nullptr};
  for (const std::string_view word : split(row.words, " ")) {
    const auto inner = parser.app->get_subcommands([&](const CLI::App* app) { return app->get_name() == word; });
    const bool group = row.words != word && parser.app == &root;
    const std::string help = group ? "Commands: " + join(second_words(std::string(word)), ", ") : row.help;
    parser.app = !inner.empty() ? inner.front() : parser.app->add_subcommand(std::string(word), help);
  }
  parser.app->allow_extras();
  const CLI::callback_t keep = [](const CLI::results_t&) { return true; };  // values are read from the option itself
  if (row.model != ModelUse::none)
    parser.model = parser.app->add_option("MODEL", keep, kModelHelp)->type_name("")->expected(1);
  for (const FlagRow& flag : rows) {
    if ((flag.commands & bit(row.command)) == 0) continue;
    CLI::Option* option =
        flag.value.empty() ? parser.app->add_flag_callback(
                                 flag.name, [] {}, help_of(flag))
                           : parser.app->add_option(flag.name, keep, help_of(flag))->type_name(flag.value)->expected(1);
    option->multi_option_policy(flag.repeats ? CLI::MultiOptionPolicy::TakeAll : CLI::MultiOptionPolicy::TakeLast);
    parser.flags.emplace_back(&flag, option);
  }
  return parser;
}

std::string first_name(const FlagRow& flag) { return std::string(split(flag.name, ",").front()); }

Status apply(const CommandParser& parser, Options& options) {
  for (const std::string& extra : parser.app->remaining()) {
    if (!extra.starts_with("-") || extra == "-") return Error("unexpected argument " + in_quotes(extra));
    std::vector<std::string> known = {"--help"};
    for (const auto& [flag, option] : parser.flags) known.push_back(first_name(*flag));
    return unknown("flag", extra.substr(0, extra.find('=')), known);
  }
  for (const auto& [flag, option] : parser.flags) {
    if (option->count() == 0) continue;
    const std::string name = first_name(*flag);
    if (flag->effect == Effect::refused) return Error(name + " is refused: " + flag->because);
    if (flag->effect == Effect::no_effect)
      log::info("flag has no effect", {{"flag", name}, {"because", flag->because}});
    std::vector<std::string> values = {flag->value.empty() ? "" : option->results().back()};
    if (flag->repeats) values = option->results();
    for (const std::string& value : values) OCTAVO_TRY(flag->set(options, value).in(name));
  }
  if (parser.model != nullptr && parser.model->count() > 0) options.model = parser.model->results().front();
  if (options.model.empty() && parser.row->model == ModelUse::required)
    return Error(std::string(parser.row->words) + " needs a MODEL: " + kModelHelp);
  if (options.command == Command::eval_logits && (options.ids_file.empty() || options.output.empty()))
    return Error("eval logits needs --input-ids-file and --output");
  if (options.command == Command::advise && !options.kernels)
    return Error("advise needs to know on what: --kernels lists the kernels of this octavo");
  if ((bit(options.command) & kEvalText) != 0 && options.text_file.empty())
    return Error(std::string(parser.row->words) + " needs --text");
  if (!options.serve.address.key_file.empty() && options.serve.address.cert_file.empty())
    return Error("--ssl-keyfile needs --ssl-certfile, the certificate that the key belongs to");
  return {};
}

Options defaults_of(Command command) {
  Options options;
  options.command = command;
  options.engine.max_num_seqs = 1;  // one conversation; more is asked for by flag
  if (command == Command::serve) {
    options.engine.max_num_seqs = 64;
    options.engine.mixed_step_tokens.reset();
  }
  options.cpu.isa = cpu::best_isa();
  if (command == Command::bench_latency || command == Command::bench_verbs) options.input_lens = {1024};
  if (command == Command::bench_throughput) options.input_lens = {512};
  if (command == Command::bench_verbs) options.output_len = 32;
  return options;
}

}  // namespace

Environment read_environment() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  const std::string home = variable("HOME");
  const std::string cache = variable("XDG_CACHE_HOME").empty() ? home + "/.cache" : variable("XDG_CACHE_HOME");
  Environment environment;
  environment.octavo_cache = cache + "/octavo";
  environment.openai_api_key = variable("OPENAI_API_KEY");
  environment.hub_directory = variable("HF_HUB_CACHE");
  if (environment.hub_directory.empty())
    environment.hub_directory = (variable("HF_HOME").empty() ? cache + "/huggingface" : variable("HF_HOME")) + "/hub";
  return environment;
}

Result<Parsed> parse_options(const std::vector<std::string>& arguments) {
  OCTAVO_TRY(check_command(arguments));
  CLI::App root("octavo: language models over long contexts, with an 8-bit KV cache and 8-bit attention", "octavo");
  root.set_version_flag("--version", OCTAVO_VERSION, "print the version");
  root.require_subcommand(0, 1);
  const std::vector<FlagRow> rows = flag_rows();
  std::vector<CommandParser> parsers;
  for (const CommandRow& row : kCommands) parsers.push_back(add_command(root, row, rows));

  const bool bench_serve = arguments.size() > 1 && arguments[0] == "bench" && arguments[1] == "serve";
  std::vector<std::string> reversed = join_layer_lists(bench_serve ? repeat_list_flags(arguments) : arguments);
  std::reverse(reversed.begin(), reversed.end());  // as CLI11 takes a vector
  try {
    root.parse(reversed);
  } catch (const CLI::Success& asked) {
    std::ostringstream out;
    root.exit(asked, out, out);
    return Parsed{std::nullopt, out.str()};
  } catch (const CLI::ParseError& failure) {
    std::string reason = failure.what();
    std::replace(reason.begin(), reason.end(), '\n', ' ');
    return Error(reason);
  }
  for (const CommandParser& parser : parsers) {
    if (!parser.app->parsed()) continue;
    Options options = defaults_of(parser.row->command);
    OCTAVO_TRY(apply(parser, options));
    return Parsed{std::move(options), ""};
  }
  return Error("no command was given; known: " + join(first_words(), ", ") + " (octavo --help)");
}

std::string flags_markdown() {
  std::string text =
      "# Flags\n\nMade from the list in `src/app/flag_rows.cc`; a test holds this page to it. `-` and `_` are alike in "
      "names. "
      "Sizes take k, m, g (powers of 1000) and K, M, G (powers of 1024). An unknown flag is an error that names the "
      "nearest, or those that are known.\n";
  for (const CommandRow& command : kCommands) {
    text += "\n## `octavo " + std::string(command.words) + model_words(command.model) + "`\n\n" + command.help +
            ".\n\n| flag | default | meaning |\n|---|---|---|\n";
    for (const FlagRow& row : flag_rows()) {
      if ((row.commands & bit(command.command)) == 0) continue;
      std::string names;
      for (const std::string_view name : split(row.name, ","))
        names += (names.empty() ? "`" : ", `") + std::string(name) + "`";
      const std::string meaning = row.effect == Effect::honoured    ? row.help
                                  : row.effect == Effect::no_effect ? "accepted, no effect: " + row.because
                                                                    : "refused: " + row.because;
      text +=
          "| " + names + (row.value.empty() ? "" : " " + row.value) + " | " + row.standard + " | " + meaning + " |\n";
    }
  }
  return text;
}

}  // namespace octavo
