#!/usr/bin/env python3
"""The house rules that a machine can read: layers, sizes, words.

    scripts/check.py [--root DIR] [--sizes]

Prints each offence as FILE:LINE: SENTENCE and ends with 1 if there is any. Looks at every file that git tracks or
would track; outside a git tree, at every file. --sizes also lists what is long but allowed.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

MAX_LINES = {".h": 500, ".cc": 500, ".cuh": 600, ".cu": 500}
LOOK_AGAIN_LINES = 300
SCREEN_LINES = 60
SKIPPED_FOLDERS = {".git", "build", "__pycache__", ".venv"}
DATA_FOLDERS = ("tests/golden/", "tests/fixtures/")  # what others wrote, or text to be tokenized

FORBIDDEN_NAMES = {"util", "utils", "common", "misc", "manager", "helper", "helpers"}
FAMILIES = re.compile(
    r"(?<![a-z])(llama|qwen|gemma|gpt[-_]?oss|deepseek|kimi|mistral|mixtral|smollm|olmo|granite|falcon|phi-?\d|glm-?\d)",
    re.IGNORECASE,
)
FAMILIES_ALLOWED = ("src/model/", "src/text/pre_tokenizers.cc", "src/server/tool_parsers/", "src/app/default_model.cc")
ARCHITECTURES = re.compile(r"(?<![a-z0-9])(sm_?\d{2,3}[a-z]?|hopper|blackwell|ampere)(?![a-z0-9])", re.IGNORECASE)
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")
PLACES = re.compile(r"(?<![\w./~}$-])/(work|root|home)(/|\b)")
REGISTRIES = re.compile(r"\b((deb|ftp|security|snapshot|archive)\.debian\.org|pypi\.org|pythonhosted\.org)\b")
CONDITIONAL = re.compile(r"\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b")
NAMESPACE = re.compile(r"namespace ([\w:]*) ?\{$")
TYPE = re.compile(r"(?:class|struct) (\w+)(?: final)?(?: :[^;]*)? \{")
INCLUDE = re.compile(r'\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)')
CODE = (".h", ".cc", ".cuh", ".cu")


def listed_files(root):
    """Paths relative to root, as strings with '/'."""
    git = subprocess.run(["git", "-C", str(root), "ls-files", "-co", "--exclude-standard", "-z"], capture_output=True)
    if git.returncode == 0:
        names = git.stdout.decode().split("\0")
        return sorted({name for name in names if name and (root / name).is_file()})
    names = []
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS]
        names += [(pathlib.Path(folder) / name).relative_to(root).as_posix() for name in files]
    return sorted(names)


def read_text(path):
    """The file's lines, or None if it is not text."""
    try:
        return path.read_bytes().decode("utf-8").splitlines()
    except UnicodeDecodeError:
        return None


def read_rooms(lines):
    """octavo_room(NAME ROOM...) lines -> {name: (line number, rooms)}."""
    rooms = {}
    for number, line in enumerate(lines, 1):
        if match := re.match(r"\s*octavo_room\(\s*([\w ]+?)\s*\)", line):
            name, *others = match[1].split()
            rooms[name] = (number, others)
    return rooms


def find_cycle(edges):
    """One cycle of the graph {node: nodes} as a list that ends where it begins, or None."""
    done, path = set(), []

    def visit(node):
        if node in path:
            return path[path.index(node) :] + [node]
        if node in done:
            return None
        path.append(node)
        for other in edges.get(node, ()):
            if cycle := visit(other):
                return cycle
        path.pop()
        done.add(node)
        return None

    for start in sorted(edges):
        if cycle := visit(start):
            return cycle
    return None


class Check:
    def __init__(self, root):
        self.root = root
        self.files = {name: read_text(root / name) for name in listed_files(root)}
        self.texts = {
            name: lines for name, lines in self.files.items() if lines is not None and not name.startswith(DATA_FOLDERS)
        }
        self.code = {name: lines for name, lines in self.texts.items() if name.endswith(CODE)}
        self.source = {name: lines for name, lines in self.code.items() if name.startswith("src/")}
        self.offences = []

    def report(self, name, number, sentence):
        self.offences.append((name, number, sentence))

    def check_layers(self):
        law = "src/rooms.cmake"
        if law not in self.texts:
            self.report(law, 1, "the law of layering is missing")
            return
        rooms = read_rooms(self.texts[law])
        if cycle := find_cycle({name: others for name, (_, others) in rooms.items()}):
            self.report(law, rooms[cycle[0]][0], f"rooms include each other in a circle: {' -> '.join(cycle)}")
        for name, (number, others) in rooms.items():
            for other in others:
                if other not in rooms:
                    self.report(law, number, f"room '{name}' may include '{other}', which has no line here")
        includes = {}
        for name, lines in self.source.items():
            room = name.split("/")[1]
            if room not in rooms:
                self.report(name, 1, f"room '{room}' has no line in {law}")
                continue
            includes[name] = self.check_includes(name, lines, room, [room, *rooms[room][1]])
        if cycle := find_cycle(includes):
            self.report(cycle[0], 1, f"files include each other in a circle: {' -> '.join(cycle)}")

    def check_includes(self, name, lines, room, allowed):
        """Reports includes that the room's line does not allow; returns the files under src that this one includes."""
        included = []
        for number, line in enumerate(lines, 1):
            match = INCLUDE.match(line)
            if not match or not match[1]:
                continue
            target = match[1]
            if "src/" + target not in self.files:
                self.report(name, number, f'"{target}" is no file under src/; include paths start at src/')
            elif target.split("/")[0] not in allowed:
                self.report(name, number, f"room '{room}' may not include '{target.split('/')[0]}' (src/rooms.cmake)")
            else:
                included.append("src/" + target)
        return included

    def check_sizes(self):
        for name, lines in self.code.items():
            limit = MAX_LINES[os.path.splitext(name)[1]]
            if len(lines) > limit:
                self.report(
                    name, limit + 1, f"{len(lines)} lines, and {limit} is the most: give a part of it a file of its own"
                )

    def check_names(self):
        for name in self.files:
            for part in name.split("/"):
                words = set(part.split(".")[0].lower().split("_"))
                for word in sorted(words & FORBIDDEN_NAMES):
                    self.report(name, 1, f"'{word}' in a name says nothing: name it for its main noun")

    def check_words(self):
        for name, lines in self.texts.items():
            for number, line in enumerate(lines, 1):
                if match := PLACES.search(line):
                    self.report(name, number, f"'{match[0]}' is a path of one machine")
                if match := REGISTRIES.search(line):
                    self.report(name, number, f"'{match[0]}' is a host's name: say which package, not from where")
                if not name.endswith(".md") and (match := UNFINISHED.search(line)):
                    self.report(name, number, f"'{match[0]}': do it, or write down elsewhere what is open")

    def check_source_words(self):
        for name, lines in self.source.items():
            test = re.search(r"_test\.(cc|cu)$", name) is not None
            for number, line in enumerate(lines, 1):
                if name.startswith("src/text/"):
                    line = line.replace('"llama"', '""')  # what GGUF calls a vocabulary of pieces with scores
                # A test may name the checkpoint that it reads.
                if not test and not name.startswith(FAMILIES_ALLOWED) and (match := FAMILIES.search(line)):
                    self.report(name, number, f"'{match[0]}' names a model family outside src/model")
                if not name.startswith("src/cuda/") and (match := ARCHITECTURES.search(line)):
                    self.report(name, number, f"'{match[0]}' names a GPU architecture outside src/cuda")

    def check_preprocessor(self):
        for name, lines in self.code.items():
            header = name.endswith((".h", ".cuh"))
            device = name.startswith("src/cuda/") and name.endswith(".cuh")
            for number, line in enumerate(lines, 1):
                if CONDITIONAL.match(line) and not device and name != "src/base/file.cc":
                    self.report(
                        name,
                        number,
                        "conditional code: one build has one meaning (allowed in src/cuda/**/*.cuh and base/file.cc)",
                    )
                if re.match(r"\s*#\s*define\b(?! PCRE2_CODE_UNIT_WIDTH )", line) and name != "src/base/result.h":
                    self.report(name, number, "a macro: OCTAVO_TRY is the only one")
                if match := INCLUDE.match(line):
                    if match[2] == "regex":
                        self.report(name, number, "<regex> crashes on long input; patterns are text/'s, with PCRE2")
                    if match[2] == "iostream" and header:
                        self.report(name, number, "<iostream> in a header costs every file that includes it")
            if header and not (lines and lines[0].startswith("//")):
                self.report(name, 1, "a header begins by saying what it is, what it promises and what it refuses")
            if header and "#pragma once" not in lines:
                self.report(name, 1, "a header says #pragma once")

    def check_types(self):
        """Two types of one name, in rooms that never meet, become one where a program is linked: with the wrong bytes."""
        defined = {}
        for name, lines in self.source.items():
            spaces = []
            for number, line in enumerate(lines, 1):
                if match := NAMESPACE.match(line):
                    spaces.append(match[1])
                elif line.startswith("}  // namespace") and spaces:
                    spaces.pop()
                elif (match := TYPE.match(line)) and all(spaces):
                    full = "::".join([*spaces, match[1]])
                    if defined.setdefault(full, name) != name:
                        self.report(name, number, f"'{full}' is defined in {defined[full]} too")

    def long_things(self):
        """What is worth a second look, as lines of text."""
        for name, lines in sorted(self.code.items(), key=lambda item: -len(item[1])):
            if len(lines) > LOOK_AGAIN_LINES:
                yield f"{name}: {len(lines)} lines"
        for name, lines in self.code.items():
            start = 0
            for number, line in enumerate(lines, 1):
                if line and not line[0].isspace() and not line.startswith(("}", "/", "#", ")")):
                    start = number
                elif line == "}" and start and number - start >= SCREEN_LINES:
                    yield f"{name}:{start}: a function of {number - start + 1} lines"

    def run(self):
        for rule in (
            self.check_layers,
            self.check_sizes,
            self.check_names,
            self.check_words,
            self.check_source_words,
            self.check_preprocessor,
            self.check_types,
        ):
            rule()
        return sorted(self.offences)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--sizes", action="store_true", help="also list files over 300 lines and functions over 60")
    options = parser.parse_args()
    check = Check(options.root)
    offences = check.run()
    for name, number, sentence in offences:
        print(f"{name}:{number}: {sentence}")
    if options.sizes:
        for line in check.long_things():
            print(f"long, look again: {line}")
    verdict = {0: "no offence", 1: "one offence"}.get(len(offences), f"{len(offences)} offences")
    print(f"check.py: {len(check.files)} files, {verdict}")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
