"""scripts/check.py on small trees: one that is clean, and one for each kind of offence."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE_DIR = pathlib.Path(__file__).resolve().parents[2]
LAW = """\
octavo_room(base)
octavo_room(kv base)
octavo_room(ops base kv)
octavo_room(model base ops)
octavo_room(cuda base)
octavo_room(text base)
"""
HEADER = "// What it is.\n#pragma once\n"
CLEAN = {
    "src/rooms.cmake": LAW,
    "src/base/file.h": HEADER,
    "src/kv/page.h": HEADER
    + '#include <vector>\n#include "base/file.h"\nnamespace octavo {\nstruct Page {\n};\n}  // namespace octavo\n',
    "src/kv/page.cc": '#include "kv/page.h"\nint main() { return 0; }\n',
    "src/kv/page_test.cc": '#include "kv/page.h"\n// as qwen3-base has it\n',
    "src/model/qwen3.cc": "// qwen3\n",
    "src/text/pieces.cc": '// "llama"\nnamespace octavo {\nnamespace {\nstruct Page {\n};\n}  // namespace\n}  // namespace octavo\n',
    "src/base/file.cc": "#ifdef _WIN32\n#endif\n",
    "src/base/result.h": HEADER + "#define OCTAVO_TRY(x) x\n",
    "src/cuda/ring.cuh": HEADER + "#if __CUDA_ARCH__ >= 900  // sm90\n#endif\n",
    "tests/golden/x/config.json": '{"_name_or_path": "' + "/ro" + 'ot/models/x"}\n',
    "README.md": "Keep a " + "TO" + "DO list if you like.\n",
}


def run_check(files, *arguments):
    """The exit code and the lines that check.py prints for a tree of these files."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        done = subprocess.run(
            [sys.executable, SOURCE_DIR / "scripts/check.py", "--root", folder, *arguments],
            capture_output=True,
            text=True,
        )
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout.splitlines()


class CheckTest(unittest.TestCase):
    def test_a_clean_tree_passes(self):
        code, lines = run_check(CLEAN)
        self.assertEqual((code, lines), (0, [f"check.py: {len(CLEAN)} files, no offence"]))

    def test_each_offence_is_found_at_its_line(self):
        long_file = "// line\n" * 501
        for name, text, where in (
            (
                "src/kv/view.cc",
                '#include "kv/page.h"\n#include "ops/ops.h"\n',
                "src/kv/view.cc:2: room 'kv' may not include 'ops'",
            ),
            ("src/kv/view_test.cc", '#include "ops/ops.h"\n', "src/kv/view_test.cc:1: room 'kv' may not include 'ops'"),
            ("src/kv/view.cc", '#include "page.h"\n', 'src/kv/view.cc:1: "page.h" is no file under src/'),
            ("src/kv/view.cc", '#include "../kv/page.h"\n', 'src/kv/view.cc:1: "../kv/page.h" is no file under src/'),
            ("src/cellar/wine.cc", "", "src/cellar/wine.cc:1: room 'cellar' has no line"),
            (
                "src/rooms.cmake",
                LAW + "octavo_room(tool client)\n",
                "src/rooms.cmake:7: room 'tool' may include 'client'",
            ),
            (
                "src/rooms.cmake",
                LAW.replace("room(base)", "room(base ops)"),
                "src/rooms.cmake:1: rooms include each other",
            ),
            ("src/kv/page.h", HEADER + '#include "kv/page.h"\n', "src/kv/page.h:1: files include each other"),
            (
                "src/text/page.h",
                HEADER + "namespace octavo {\nclass Page final {\n",
                "src/text/page.h:4: 'octavo::Page' is defined in src/kv/page.h too",
            ),
            ("src/kv/long.cc", long_file, "src/kv/long.cc:501: 501 lines"),
            ("src/kv/kv_utils.cc", "", "src/kv/kv_utils.cc:1: 'utils' in a name"),
            ("src/base/common/file.cc", "", "src/base/common/file.cc:1: 'common' in a name"),
            ("src/kv/view.cc", "\n// for Llama models\n", "src/kv/view.cc:2: 'Llama' names a model family"),
            ("src/kv/view.cc", 'if (family == "gpt_oss") {}\n', "src/kv/view.cc:1: 'gpt_oss' names a model family"),
            ("src/model/moe.cc", "// wants sm_90a\n", "src/model/moe.cc:1: 'sm_90a' names a GPU architecture"),
            ("src/kv/view.cc", "// Hopper\n", "src/kv/view.cc:1: 'Hopper' names a GPU architecture"),
            ("src/kv/view.cc", "#ifdef FAST\n", "src/kv/view.cc:1: conditional code"),
            ("src/cuda/view.cc", "# if 1\n", "src/cuda/view.cc:1: conditional code"),
            ("src/kv/view.cc", "#define FAST 1\n", "src/kv/view.cc:1: a macro"),
            ("src/kv/view.cc", "// " + "TO" + "DO: more\n", "src/kv/view.cc:1: '" + "TO" + "DO'"),
            (
                "scripts/run",
                "cd " + "/ro" + "ot/octavo\n",
                "scripts/run:1: '" + "/ro" + "ot/' is a path of one machine",
            ),
            ("docs/x.md", "at deb.debian" + ".org\n", "docs/x.md:1: 'deb.debian" + ".org' is a host's name"),
            ("src/kv/view.cc", "#include <regex>\n", "src/kv/view.cc:1: <regex>"),
            ("src/kv/view.h", HEADER + "#include <iostream>\n", "src/kv/view.h:3: <iostream>"),
            ("src/kv/view.h", "#pragma once\n", "src/kv/view.h:1: a header begins by saying"),
            ("src/kv/view.h", "// A view.\n", "src/kv/view.h:1: a header says #pragma once"),
        ):
            with self.subTest(where):
                files = CLEAN | {"src/ops/ops.h": HEADER} | {name: text}
                code, lines = run_check(files)
                self.assertEqual(code, 1)
                self.assertEqual(len(lines), 2, lines)
                self.assertTrue(lines[0].startswith(where), lines[0])
                self.assertEqual(lines[1], f"check.py: {len(files)} files, one offence")

    def test_two_files_that_include_each_other(self):
        code, lines = run_check(
            CLEAN | {"src/kv/a.h": HEADER + '#include "kv/b.h"\n', "src/kv/b.h": HEADER + '#include "kv/a.h"\n'}
        )
        self.assertEqual(code, 1)
        self.assertIn("src/kv/a.h -> src/kv/b.h -> src/kv/a.h", lines[0])

    def test_long_things_are_listed_but_allowed(self):
        body = "int f(int a,\n      int b) {\n" + "  a += b;\n" * 60 + "}\n"
        code, lines = run_check(CLEAN | {"src/kv/f.cc": body, "src/kv/g.cc": "//\n" * 301}, "--sizes")
        self.assertEqual(code, 0)
        self.assertEqual(
            lines[:2],
            ["long, look again: src/kv/g.cc: 301 lines", "long, look again: src/kv/f.cc:1: a function of 63 lines"],
        )


if __name__ == "__main__":
    unittest.main()
