#!/usr/bin/env python3
"""Holds every kernel to its budget, by what ptxas says of it: registers, spilled bytes, products that wait in line.

    scripts/kernel_report.py [--budgets FILE] [--table] FOLDER_OR_LOG...
    scripts/kernel_report.py --keep COMPILER ARGUMENT...

The first form reads the reports under a build folder (each *.ptxas beside its object) or the logs named, and ends with
1 if a kernel spills more than its row of src/cuda/kernel_budgets.txt allows or takes more registers, if ptxas notes
C75xx (a wgmma that was serialised), if a kernel has no row or a row no kernel, or if there is no report at all.
--table lists every kernel. The second form runs a compiler and keeps what its ptxas says beside the object that it
makes: a build that does nothing then still has its report. CMake's option OCTAVO_CUDA_REPORT compiles so.
"""

import argparse
import dataclasses
import fnmatch
import pathlib
import re
import subprocess
import sys

BUDGETS = pathlib.Path(__file__).resolve().parent.parent / "src/cuda/kernel_budgets.txt"
SUFFIX = ".ptxas"
COMPILING = re.compile(r"ptxas info\s*: Compiling entry function '(\w+)' for '(\w+)'")
SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
REGISTERS = re.compile(r"ptxas info\s*: Used (\d+) registers")
NOTE = re.compile(r"\(?\bC75\d\d\)?")
NOTED_FUNCTION = re.compile(r"function '?(\w+)")


@dataclasses.dataclass
class Kernel:
    symbol: str
    architecture: str
    log: str
    registers: int | None = None
    spill_bytes: int | None = None
    name: str = ""


@dataclasses.dataclass
class Budget:
    line: int
    pattern: str
    registers: int
    spill_bytes: int
    used: bool = False


def read_log(name, text):
    """The kernels of one log, and its notes C75xx as (symbol or "", line)."""
    kernels, notes, kernel = [], [], None
    for line in text.splitlines():
        if match := COMPILING.search(line):
            kernel = Kernel(match[1], match[2], name)
            kernels.append(kernel)
        elif NOTE.search(line):
            noted = NOTED_FUNCTION.search(line)
            notes.append((noted[1] if noted else kernel.symbol if kernel else "", line.strip()))
        elif kernel and kernel.registers is None:
            if match := SPILLS.search(line):
                kernel.spill_bytes = max(int(match[1]), int(match[2]))
            elif match := REGISTERS.search(line):
                kernel.registers = int(match[1])
    return kernels, notes


def short_name(demangled):
    """void octavo::cuda::(anonymous namespace)::k<int, (octavo::E)2>(args) -> k<int,2>."""
    text = demangled.replace("(anonymous namespace)::", "").replace("octavo::cuda::", "")
    text = re.sub(r"\(octavo::\w+\)", "", text)
    text = re.sub(r"\(int\)|\(bool\)", "", text)
    text = text.split("(")[0].replace(", ", ",")
    return text.removeprefix("void ").strip()


def name_kernels(symbols):
    """{mangled: short name}, by c++filt."""
    if not symbols:
        return {}
    try:
        done = subprocess.run(["c++filt"], input="\n".join(symbols), capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as failure:
        sys.exit(f"kernel_report.py: c++filt, which names kernels, does not run (package binutils): {failure}")
    return {symbol: short_name(line) for symbol, line in zip(symbols, done.stdout.splitlines())}


def read_budgets(path):
    budgets, offences = [], []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        words = line.split(maxsplit=3)
        if not words or words[0].startswith("#"):
            continue
        if len(words) < 3 or not words[0].isdigit() or not words[1].isdigit():
            offences.append(f"{path.name}:{number}: a row is REGISTERS SPILL_BYTES KERNEL [REASON]: {line.strip()}")
            continue
        budgets.append(Budget(number, words[2], int(words[0]), int(words[1])))
        if int(words[1]) > 0 and len(words) < 4:
            offences.append(f"{path.name}:{number}: {words[2]} may spill, but the row gives no reason")
    return budgets, offences


def judge(kernel, budgets):
    """What is wrong with one kernel, as sentences."""
    place = f"{kernel.name} ({kernel.architecture})"
    budget = next((b for b in budgets if fnmatch.fnmatchcase(kernel.name, b.pattern)), None)
    if budget is None:
        return [f"{place}: has no row in the table of budgets"]
    budget.used = True
    if kernel.registers is None or kernel.spill_bytes is None:
        return [f"{place}: ptxas does not say its registers and spills; compile with -Xptxas=-v"]
    offences = []
    if kernel.spill_bytes > budget.spill_bytes:
        offences.append(f"{place}: spills {kernel.spill_bytes} bytes, and its budget is {budget.spill_bytes}")
    if kernel.registers > budget.registers:
        offences.append(f"{place}: takes {kernel.registers} registers, and its budget is {budget.registers}")
    return offences


def logs_of(paths):
    """(name, text) of every log; a folder stands for all reports under it."""
    for path in paths:
        if path.is_dir():
            for log in sorted(path.rglob("*" + SUFFIX)):
                if log.with_name(log.name.removesuffix(SUFFIX)).exists():  # of an object that is gone: stale
                    yield str(log), log.read_text()
        elif path.is_file():
            yield str(path), path.read_text()
        else:
            sys.exit(f"kernel_report.py: {path} is not there: build first (cmake option OCTAVO_CUDA_REPORT)")


def report(options):
    budgets, offences = read_budgets(options.budgets)
    kernels, notes = [], []
    for name, text in logs_of(options.paths):
        found, noted = read_log(name, text)
        kernels += found
        notes += noted
    names = name_kernels(sorted({k.symbol for k in kernels} | {symbol for symbol, _ in notes if symbol}))
    for kernel in kernels:
        kernel.name = names[kernel.symbol]
    kernels.sort(key=lambda kernel: (kernel.name, kernel.architecture))
    for kernel in kernels:
        offences += judge(kernel, budgets)
    for symbol, line in notes:
        offences.append(f"{names.get(symbol, 'a kernel')}: ptxas notes: {line}")
    if not kernels:
        offences.append("no kernel is reported in " + ", ".join(map(str, options.paths)))
    else:
        offences += [
            f"{options.budgets.name}:{budget.line}: no kernel is named {budget.pattern}"
            for budget in budgets
            if not budget.used
        ]
    if options.table:
        for kernel in kernels:
            print(f"{kernel.registers:4} registers {kernel.spill_bytes:5} spilled  {kernel.architecture:7} {kernel.name}")
    for offence in offences:
        print(offence)
    architectures = ", ".join(sorted({kernel.architecture for kernel in kernels}, key=lambda a: (len(a), a))) or "none"
    verdict = {0: "no offence", 1: "one offence"}.get(len(offences), f"{len(offences)} offences")
    print(f"kernel_report.py: {len(kernels)} kernels for {architectures}, {verdict}")
    return 1 if offences else 0


def keep(command):
    """Runs the compiler; ptxas's information goes beside the object, all else to stderr as it came."""
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace")
    said, rest = [], []
    for line in done.stderr.splitlines(keepends=True):
        told = line.startswith("ptxas info") or SPILLS.search(line)
        (said if told else rest).append(line)
        if told and NOTE.search(line):
            rest.append(line)
    sys.stderr.write("".join(rest))
    if "-o" in command[:-1] and done.returncode == 0:
        made = pathlib.Path(command[command.index("-o") + 1])
        made.with_name(made.name + SUFFIX).write_text("".join(said))
    return done.returncode


def main():
    if sys.argv[1:2] == ["--keep"] and len(sys.argv) > 2:
        return keep(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=pathlib.Path, metavar="FOLDER_OR_LOG")
    parser.add_argument("--budgets", type=pathlib.Path, default=BUDGETS, help="the table of budgets [%(default)s]")
    parser.add_argument("--table", action="store_true", help="list every kernel")
    return report(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
