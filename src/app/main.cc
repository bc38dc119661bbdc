// octavo: one program, its commands. Builds everything in order and owns it.

#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>

#include "app/backends.h"
#include "app/default_model.h"
#include "app/options.h"
#include "base/mapped_ranges.h"
#include "base/shown.h"

namespace octavo {
namespace {

constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;

// On one line, whatever bytes a path or a template's own message has.
int report(const Error& error, int code) {
  std::fprintf(stderr, "octavo: %s\n", visible(error.message(), error.message().size()).c_str());
  return code;
}

// Ctrl-C is waited for by InterruptWatcher's thread, so every thread inherits it blocked; a reader that left and a file
// grown too large are write errors; a model's file that shrinks is a sentence and the end.
void set_signals() {
  sigset_t interrupts;
  sigemptyset(&interrupts);
  sigaddset(&interrupts, SIGINT);
  pthread_sigmask(SIG_BLOCK, &interrupts, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  end_when_mapped_files_shrink();
}

Status call_server(Options& options, const std::string& api_key) {
  InterruptWatcher interrupts;
  const bool chatting = options.command == Command::chat;
  ClientConfig& client = chatting ? options.chat.client : options.bench_serve.client;
  if (client.api_key.empty()) client.api_key = api_key;
  return chatting ? chat(options.chat, interrupts) : bench_serve(options.bench_serve);
}

Status dispatch(Options options) {
  if (options.command == Command::advise) return advise_kernels({options.output_json}, kernel_inventory());
  if (options.command == Command::bench_kernels)
    return bench_kernels({options.kernel_rows, options.engine.seed, options.output_json, options.report_file},
                         backend_factory(options));
  const Environment environment = read_environment();
  if (options.command == Command::chat || options.command == Command::bench_serve)
    return call_server(options, environment.openai_api_key);
  if (options.model.empty()) {
    OCTAVO_TRY(options.engine.model_path, default_model_path(environment.octavo_cache));
  } else {
    OCTAVO_TRY(options.engine.model_path, resolve_model_path(options.model, {environment.hub_directory}));
  }
  if (options.command == Command::serve) {
    options.serve.engine = options.engine;
    options.serve.model_name =
        options.model.empty() ? std::filesystem::path(options.engine.model_path).stem().string() : options.model;
    options.serve.chat_template = options.chat_template;
    return serve(options.serve, backend_factory(options));
  }
  const std::string& path = options.engine.model_path;
  InterruptWatcher interrupts;
  switch (options.command) {
    case Command::run:
      return run({options.engine, options.sampling, options.prompt, options.system, options.chat_template},
                 backend_factory(options), interrupts);
    case Command::inspect:
      return inspect({path, options.engine.load_format, options.engine.overrides, options.engine.tensor_parallel,
                      options.chat_template, options.json},
                     backend_factory(options));
    case Command::eval_logits:
      return eval_logits({options.engine, options.ids_file, options.output, options.decode_from},
                         backend_factory(options));
    case Command::eval_nll:
      return eval_nll({options.engine, options.text_file, options.context, options.output_json, options.decode_from},
                      backend_factory(options));
    case Command::eval_kld:
      return eval_kld({options.engine, options.kv_cache_name, options.reference_kv_cache, options.reference_name,
                       options.text_file, options.context, options.output_json, options.decode_from},
                      backend_factory(options));
    case Command::bench_latency:
    case Command::bench_sweep:
      return bench_latency({options.engine, options.kv_caches, options.input_lens, options.output_len,
                            options.num_iters, options.num_iters_warmup, options.output_json, options.report_file},
                           backend_factory(options));
    case Command::bench_throughput:
      return bench_throughput(
          {options.engine, options.kv_cache_name, options.num_prompts, options.max_concurrency,
           options.input_lens.front(), options.output_len, options.random_range_ratio, options.output_json},
          backend_factory(options));
    case Command::bench_verbs:
      return bench_verbs({options.engine, options.kv_cache_name, options.input_lens.front(), options.output_len,
                          options.num_iters, options.output_json},
                         backend_factory(options));
    case Command::serve:
    case Command::chat:
    case Command::bench_serve:
    case Command::bench_kernels:
    case Command::advise:
      break;  // above
    case Command::tokenize:
      return tokenize({path, options.decode, options.plain, options.add_special, options.jsonl});
    case Command::render_template:
      return render_template({path, options.chat_template, options.jsonl});
  }
  return {};
}

int run_program(const std::vector<std::string>& arguments) {
  if (const Status status = check_stdout(); !status) return report(status.error(), kFailed);
  Result<Parsed> parsed = parse_options(arguments);
  if (!parsed) return report(parsed.error(), kWrongUsage);
  const Status status = parsed->options ? dispatch(std::move(*parsed->options)) : write_stdout(parsed->text);
  return status ? 0 : report(status.error(), kFailed);
}

}  // namespace
}  // namespace octavo

int main(int argc, char** argv) {
  octavo::set_signals();
  try {
    return octavo::run_program({argv + 1, argv + argc});
  } catch (const std::bad_alloc&) {
    return octavo::report(octavo::Error("out of memory"), octavo::kFailed);
  } catch (const std::exception& failure) {
    return octavo::report(octavo::Error(std::string("internal error: ") + failure.what()), octavo::kFailed);
  }
}
