#!/usr/bin/python3
"""Proves that each check of this folder can fail: scratch trees that break one rule each.

Run it alone, or under pytest.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parent
LAYERS = """\
base   -            heap
crypto base         heap
wire   base
os     base         io,heap
"""
GOOD_HEADER = "#pragma once\n#include <stdint.h>\nuint8_t x_value(void);\n"


class Tree(unittest.TestCase):
    """A scratch tree under git, and the checks run on it."""

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.root = Path(self.scratch.name)
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.name", "Test")
        self.git("config", "user.email", "test@example.org")
        self.write("LAYERS", LAYERS)
        self.write("src/base/x.h", GOOD_HEADER)

    def git(self, *words):
        subprocess.run(["git", "-C", str(self.root), *words], check=True, capture_output=True)

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def commit(self, message):
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)

    def run_check(self, check):
        done = subprocess.run([str(TOOLS / check), "--root", str(self.root)],
                              capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def passes(self, check):
        code, out = self.run_check(check)
        self.assertEqual(code, 0, out)

    def fails(self, check, what):
        code, out = self.run_check(check)
        self.assertEqual(code, 1, out)
        self.assertIn(what, out)


class Layers(Tree):
    def archive(self, room, source):
        """Compiles source as the room's library, as the build would leave it."""
        build = self.root / "build"
        build.mkdir(exist_ok=True)
        subprocess.run(["cc", "-c", "-O1", "-x", "c", "-", "-o", str(build / f"{room}.o")],
                       input=source, text=True, check=True)
        subprocess.run(["ar", "crs", str(build / f"libweft_{room}.a"), str(build / f"{room}.o")],
                       check=True)

    def test_a_good_tree_passes(self):
        self.write("src/wire/a.c", '#include "base/x.h"\n#include <string.h>\n')
        self.write("src/wire/g.h", "#ifndef WIRE_G_H\n#define WIRE_G_H\nint g(void);\n#endif\n")
        self.write("src/os/b.c", "#include <unistd.h>\n#include <uv.h>\n#ifdef A\n#endif\n")
        self.archive("base", "#include <stdlib.h>\nvoid *w_alloc(int n) { return malloc(n); }")
        self.archive("crypto", "void *w_alloc(int n); void *c(void) { return w_alloc(3); }")
        self.archive("os", "int getpid(void); int p(void) { return getpid(); }")
        self.passes("check_layers")

    def test_a_room_not_on_the_line(self):
        self.write("src/crypto/c.h", GOOD_HEADER)
        self.write("src/wire/a.c", '#include "crypto/c.h"\n')
        self.fails("check_layers", "wire may not include crypto")

    def test_a_line_naming_a_later_room(self):
        self.write("LAYERS", "base wire heap\nwire base\n")
        self.fails("check_layers", "base names wire, not on an earlier line")

    def test_a_folder_without_a_line(self):
        self.write("src/attic/a.c", "")
        self.fails("check_layers", "attic has no line in LAYERS")

    def test_a_private_header_of_another_room(self):
        for name in ("x_priv.h", "priv.h"):
            with self.subTest(name=name):
                self.write(f"src/base/{name}", GOOD_HEADER)
                self.write("src/wire/a.c", f'#include "base/{name}"\n')
                self.fails("check_layers", "belongs to base alone")

    def test_an_include_without_its_room(self):
        self.write("src/base/a.c", '#include "x.h"\n')
        self.fails("check_layers", "not of the form")

    def test_an_include_of_nothing(self):
        self.write("src/base/a.c", '#include "base/gone.h"\n')
        self.fails("check_layers", "there is no src/base/gone.h")

    def test_a_system_header_without_io(self):
        self.write("src/wire/a.c", "#include <sys/socket.h>\n")
        self.fails("check_layers", "wire has no io")

    def test_an_unknown_header(self):
        self.write("src/os/a.c", "#include <curl/curl.h>\n")
        self.fails("check_layers", "is in no list")

    def test_a_vendor_header_outside_its_room(self):
        self.write("src/os/a.c", "#include <openssl/evp.h>\n")
        self.fails("check_layers", "belongs to crypto alone")

    def test_conditional_compilation(self):
        self.write("src/wire/a.c", "#ifdef __linux__\n#endif\n")
        self.fails("check_layers", "conditional compilation")

    def test_a_header_that_needs_another_first(self):
        self.write("src/wire/h.h", "#pragma once\nuint8_t h(void);\n")
        self.fails("check_layers", "does not compile alone")

    def test_a_system_call_without_io(self):
        self.archive("wire", "int getpid(void); int p(void) { return getpid(); }")
        self.fails("check_layers", "calls getpid")

    def test_a_clock_without_io(self):
        self.archive("crypto", "#include <time.h>\nlong t(void) { return time(0); }")
        self.fails("check_layers", "calls time")

    def test_randomness_of_the_library(self):
        self.archive("crypto", "int RAND_bytes(char *, int); int r(char *b)"
                               "{ return RAND_bytes(b, 1); }")
        self.fails("check_layers", "calls RAND_bytes")

    def test_malloc_outside_base(self):
        self.archive("os", "#include <stdlib.h>\nvoid *m(void) { return malloc(7); }")
        self.fails("check_layers", "calls malloc")

    def test_strdup_outside_base(self):
        self.archive("crypto", "#include <string.h>\nchar *m(char *s) { return strdup(s); }")
        self.fails("check_layers", "calls strdup")

    def test_allocation_without_heap(self):
        self.archive("wire", "void *w_alloc(int n); void *m(void) { return w_alloc(3); }")
        self.fails("check_layers", "wire has no heap")

    def test_mutable_static_data(self):
        self.archive("wire", "int next(void) { static int n; return ++n; }")
        self.fails("check_layers", "mutable static data")

    def test_a_null_cipher(self):
        self.archive("crypto", "int esp_null_seal(void) { return 0; }")
        self.fails("check_layers", "a null cipher belongs to bench/ alone")


class RfcMap(Tree):
    ROW = "| RFC 9999 1 | all | `src/base/y.c` | `src/base/y_test.c::works` |\n"

    def setUp(self):
        super().setUp()
        self.write("doc/rfc-map.md", self.ROW)
        self.write("src/base/y.c", "/* RFC 9999 1 */\n")
        self.write("src/base/y_test.c", "static void works(void **state)\n")

    def test_a_good_tree_passes(self):
        self.passes("check_rfc_map")

    def test_a_file_that_is_gone(self):
        (self.root / "src/base/y.c").unlink()
        self.fails("check_rfc_map", "src/base/y.c does not exist")

    def test_a_file_that_does_not_cite(self):
        self.write("src/base/y.c", "int x;\n")
        self.fails("check_rfc_map", "does not cite RFC 9999")

    def test_a_test_that_is_gone(self):
        self.write("src/base/y_test.c", "static void worked(void **state)\n")
        self.fails("check_rfc_map", "has no works")

    def test_a_row_of_another_form(self):
        self.write("doc/rfc-map.md", "| RFC 9999 1 | all | src/base/y.c |\n")
        self.fails("check_rfc_map", "not a row")


class Budget(Tree):
    def function(self, lines, parameters="void"):
        return f"int f({parameters})\n{{\n" + "\t;\n" * lines + "}\n"

    def test_a_good_tree_passes(self):
        self.write("src/wire/a.c", self.function(100, "int a, int b, int c, int d, int e, int f"))
        self.write("src/wire/b.c", "int x;\n" * 899)
        self.write("src/wire/c.c", "\t" * 12 + "1234\n")
        self.passes("check_budget")

    def test_a_long_file(self):
        self.write("src/wire/a.c", "int x;\n" * 900)
        self.fails("check_budget", "900 lines")

    def test_a_long_function(self):
        self.write("src/wire/a.c", self.function(101))
        self.fails("check_budget", "function of 101 lines")

    def test_too_many_parameters(self):
        self.write("src/wire/a.c", self.function(1, "int a, int b, int c,\n\tint (*d)(int, int),"
                                                    " int e, int f, int g"))
        self.fails("check_budget", "7 parameters")

    def test_a_wide_line(self):
        self.write("src/wire/a.c", "\t" * 12 + "12345\n")
        self.fails("check_budget", "101 columns")

    def test_words(self):
        for word in ("TO" "DO", "FIX" "ME", "X" "XX", "see is" "sue 12", "(" "#12)",
                     "sub" "agent", "the C" "EO", "in /wo" "rk/main"):
            with self.subTest(word=word):
                self.write("src/wire/a.c", f"/* {word} */\n")
                self.fails("check_budget", "src/wire/a.c:1")

    def test_words_of_the_documents(self):
        self.write("doc/a.md", "TO" "DO: write\n")
        self.fails("check_budget", "doc/a.md:1")


class Commits(Tree):
    def test_a_good_history_passes(self):
        self.commit("wire: " + "x" * 54 + "\n\nBecause.")
        self.passes("check_commits")

    def test_a_long_subject(self):
        self.commit("wire: " + "x" * 55)
        self.fails("check_commits", "subject of 61 characters")

    def test_no_prefix(self):
        self.commit("Write the header")
        self.fails("check_commits", "not 'prefix: what'")

    def test_an_unknown_prefix(self):
        self.commit("attic: write the header")
        self.fails("check_commits", "unknown prefix 'attic'")

    def test_an_earlier_commit(self):
        self.commit("Write the header")
        self.commit("wire: mend the header")
        self.fails("check_commits", "Write the header")

    def test_an_accepted_commit(self):
        self.commit("Write the header")
        head = subprocess.run(["git", "-C", str(self.root), "rev-parse", "HEAD"], check=True,
                              capture_output=True, text=True).stdout.strip()
        self.write("tools/commits_accepted", f"# why\n{head} published before the check\n")
        self.passes("check_commits")
        self.commit("Mend the header")
        self.fails("check_commits", "Mend the header")

    def test_words_of_the_body(self):
        self.commit("wire: mend the header\n\nAs is" "sue 12 says.")
        self.fails("check_commits", "number of a tracker")


class Format(Tree):
    def setUp(self):
        super().setUp()
        self.write(".clang-format", (TOOLS.parent / ".clang-format").read_text())
        if self.run_check("check_format")[0] == 77:
            self.skipTest("no clang-format 14 here")

    def test_kernel_form_passes(self):
        self.write("src/wire/a.c", "int f(char *p)\n{\n\tif (p)\n\t\treturn 1;\n\treturn 0;\n}\n")
        self.passes("check_format")

    def test_other_form(self):
        self.write("src/wire/a.c", "int f(char* p) {\n    return 0;\n}\n")
        self.fails("check_format", "clang-format")


FLAKY = """\
from pathlib import Path
SEEN = Path(__file__).with_suffix(".seen")
def test_good():
    pass
def test_second_time():
    seen = SEEN.exists()
    SEEN.touch()
    assert seen
def test_never():
    assert not {never}
"""


class SecondTry(Tree):
    """Scenarios that failed are run once more, and only those."""

    def scenarios(self, never):
        shutil.copytree(TOOLS, self.root / "tools")
        self.write("test/pytest.ini", (TOOLS.parent / "test" / "pytest.ini").read_text())
        self.write("test/netns/test_flaky.py", FLAKY.format(never=never))
        done = subprocess.run([str(self.root / "tools/test"), "netns"], text=True, check=False,
                              capture_output=True)
        return done.returncode, done.stdout.splitlines()

    def test_passing_the_second_time_is_passing(self):
        code, said = self.scenarios(never=False)
        self.assertEqual((code, said[-1]), (0, "3 passed, 0 failed"))
        self.assertIn("passed only when it was run once more: "
                      "netns.test_flaky::test_second_time", said)

    def test_failing_twice_is_failing(self):
        code, said = self.scenarios(never=True)
        self.assertEqual((code, said[-1]), (1, "2 passed, 1 failed"))


class Counting(unittest.TestCase):
    """The last line of the test run, and its exit code, from the reports of the stages."""

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.folder = Path(self.scratch.name)

    def counts(self, code, last):
        done = subprocess.run([str(TOOLS / "count_results.py"), str(self.folder)],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.stdout.splitlines()[-1], last, done.stderr)
        self.assertEqual(done.returncode, code)
        return done.stdout

    def stage(self, name, code, **reports):
        (self.folder / f"{name}.exit").write_text(f"{code}\n")
        for suffix, text in reports.items():
            (self.folder / f"{name}.{suffix}").write_text(text)

    def meson(self, name, result, said=""):
        return json.dumps({"name": name, "result": result, "stdout": said}) + "\n"

    def test_stages_without_reports(self):
        self.stage("a", 0)
        self.stage("b", 77)
        self.counts(0, "1 passed, 0 failed, 1 skipped")
        self.stage("c", 124)
        self.counts(1, "1 passed, 1 failed, 1 skipped")

    def test_cases_inside_a_program(self):
        self.stage("unit", 1, json=self.meson("a", "OK", "[  PASSED  ] 7 test(s).")
                   + self.meson("b", "FAIL", "[  PASSED  ] 3 test(s).\n[  FAILED  ] 2 test(s)")
                   + self.meson("c", "TIMEOUT") + self.meson("d", "OK") + self.meson("e", "SKIP"))
        self.counts(1, "11 passed, 3 failed, 1 skipped")

    def test_junit(self):
        self.stage("netns", 1, xml="<testsuites><testsuite><testcase name='a'/>"
                   "<testcase name='b'><failure/></testcase><testcase name='c'><error/></testcase>"
                   "<testcase name='d'><skipped/></testcase></testsuite></testsuites>")
        self.counts(1, "1 passed, 2 failed, 1 skipped")

    def test_last_words(self):
        many = "\n".join(f"line {i}" for i in range(100))
        self.stage("unit", 1, json=self.meson("quiet", "OK", "unheard")
                   + self.meson("loud", "FAIL", many).replace("}", ', "returncode": -6}'))
        self.stage("netns", 1, xml="<testsuite><testcase name='b'><failure message='m'>said it"
                   "</failure></testcase></testsuite>")
        said = self.counts(1, "1 passed, 2 failed")
        self.assertIn("loud, exit -6:\n  line 85\n", said)
        self.assertIn("  line 99\n", said)
        self.assertNotIn("line 84", said)
        self.assertIn("  said it\n", said)
        self.assertNotIn("unheard", said)

    def test_a_second_try(self):
        first = ("<testsuite><testcase name='a'/>"
                 "<testcase name='b'><failure>too late</failure></testcase>"
                 "<testcase name='c'><failure/></testcase></testsuite>")
        self.stage("netns", 1, xml=first, again="<testsuite><testcase name='b'/>"
                   "<testcase name='c'><failure/></testcase></testsuite>")
        self.counts(1, "2 passed, 1 failed")
        self.stage("netns", 0, xml=first, again="<testsuite><testcase name='b'/>"
                   "<testcase name='c'/></testsuite>")
        self.assertIn("b, the first time:\n  too late\n", self.counts(0, "3 passed, 0 failed"))

    def test_a_stage_that_failed_though_no_case_did(self):
        self.stage("netns", 137, xml="<testsuite><testcase name='a'/></testsuite>")
        self.counts(1, "1 passed, 1 failed")

    def test_a_report_cut_short(self):
        self.stage("netns", 0, xml="<testsuite><testcase")
        self.counts(1, "0 passed, 1 failed")

    def test_nothing_run(self):
        self.counts(1, "0 passed, 1 failed")


class Demo(unittest.TestCase):
    """A bare machine gets what the demo needs from tools/deps --demo."""

    def test_imports(self):
        """Nothing is imported but what Python has, and what that list names."""
        packages = re.search(r"^demo_packages=\((.*)\)$", (TOOLS / "deps").read_text(), re.M)
        named = [word.removeprefix("python3-") for word in packages[1].split()
                 if word.startswith("python3-")]
        code = ("import sys, types\n"
                f"for name in {named}: sys.modules[name] = types.ModuleType(name)\n"
                f"sys.path.insert(0, {str(TOOLS.parent / 'test')!r})\n"
                "import lab\n")
        done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
