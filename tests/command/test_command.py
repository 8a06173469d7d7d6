"""The command: every subcommand does its work, and errors of a user are one line and exit status 2."""

import builtins
import subprocess
import sys
from pathlib import Path

import pytest

import triskele
from triskele import reinforce
from triskele.command import SUBCOMMANDS, cache, examples, main, play

ROOT = Path(__file__).parents[2]


def test_help_and_version_load_neither_numpy_nor_the_packages():
    code = (
        "import sys; from triskele.command import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: print([m for m in sys.modules if m in ('numpy', 'numba', 'triskele.core')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(ROOT / ".src")}
    )
    assert done.stdout.splitlines()[-1] == "[]"
    assert all(f"    {name} " in done.stdout for name in SUBCOMMANDS)


def test_version(capsys):
    with pytest.raises(SystemExit, match="^0$"):
        main(["--version"])
    assert capsys.readouterr().out == f"triskele {triskele.__version__}\n"


@pytest.mark.parametrize(
    "arguments, message",
    [
        ("plya", "triskele: no such name 'plya' (did you mean 'play'? known: info, "),
        ("", "triskele: the following arguments are required: command"),
        (
            "warmup sponeg",
            "triskele warmup: packages must be among core, sponge, quantum, reinforce, got 'sponeg' (did ",
        ),
        ("warmup core --jobs 0", "triskele warmup: jobs must be an integer >= 1, got 0"),
        (
            "demo quantm",
            "triskele demo: packages must be among core, sponge, quantum, reinforce, got 'quantm' (did you",
        ),
        ("cache shrink", "triskele cache: no such name 'shrink' (known: path, size, clear)"),
        ("examples run vqe_lhi", "triskele examples: there is no example 'vqe_lhi' (did you mean 'vqe_lih'?)"),
        ("examples copy", "triskele examples: copy needs the name of an example"),
        ("bench chess", "triskele bench: no such name 'chess' (known: core,"),
        ("md run none.toml", "triskele md: [Errno 2] No such file or directory: 'none.toml'"),
        ("md", "triskele md: the following arguments are required: run|template"),
        ("play chess", "triskele play: there is no game 'chess' (known: breakthrough, connect_four, "),
        ("play conect-four", "triskele play: there is no game 'conect-four' (did you mean 'connect_four'?"),
        ("play nim --level divine", "triskele play: no such name 'divine' (known: easy, normal, hard)"),
    ],
)
def test_errors_of_a_user_are_one_line(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        status = main(arguments.split())
    except SystemExit as end:
        status = end.code
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert err.startswith(message)
    assert err.count("\n") == 1


def test_info(capsys):
    assert main(["info"]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if line)
    assert lines["triskele"].startswith(f"{triskele.__version__} (")
    assert lines["python"].startswith(".".join(map(str, sys.version_info[:3])))
    assert {"numpy", "scipy", "numba", "llvmlite", "processor", "SIMD", "threads", "cache"} <= lines.keys()
    assert "matplotlib" in lines["plot"]


def test_cache(capsys, tmp_path, monkeypatch):
    from triskele.core.extend import disk_cache

    monkeypatch.setenv("TRISKELE_CACHE_DIR", str(tmp_path / "cache"))
    disk_cache.put(disk_cache.make_key("a"), bytes(1_000_000))
    assert cache.size()[0] == 1
    for action, expected in [
        ("path", f"{tmp_path / 'cache'}\n"),
        ("size", "1 files, 1.0 MB\n"),
        ("clear", f"deleted 1 files, 1.0 MB, from {tmp_path / 'cache'}\n"),
        ("size", "0 files, 0.0 MB\n"),
    ]:
        assert main(["cache", action]) == 0
        assert capsys.readouterr().out == expected


def test_examples_are_listed_and_copied_with_their_data(capsys, tmp_path, monkeypatch):
    assert main(["examples"]) == 0
    out = capsys.readouterr().out
    assert all(f"  {path.stem} " in out for path in (ROOT / "examples").rglob("*.py"))
    monkeypatch.chdir(tmp_path)
    assert main(["examples", "copy", "fit-ode"]) == 0
    assert capsys.readouterr().out == "fit_ode.py\ndata/hare_lynx.csv\n"
    assert Path("fit_ode.py").read_bytes() == (ROOT / "examples" / "core" / "fit_ode.py").read_bytes()
    assert main(["examples", "copy", "fit_ode"]) == 2
    assert "fit_ode.py exists already" in capsys.readouterr().err


def test_every_data_file_of_an_example_is_copied_with_it():
    for script in examples.scripts().values():
        for data in (script.parent / "data").glob("*"):
            users = [other for other in script.parent.glob("*.py") if data.name in other.read_text()]
            assert users or data.name == "README.md"


def test_an_example_runs_with_its_options(capfd):
    assert main(["examples", "run", "quickstart", "--help"]) == 0
    assert "--output" in capfd.readouterr().out


def test_an_example_says_what_it_needs_before_it_runs(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["examples", "run", "fit_ode"]) == 2
    assert 'examples: fit_ode: needs matplotlib (pip install "triskele[plot]", or' in capsys.readouterr().err


def test_md(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["md", "template"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "run it with: triskele md run md.toml"
    text = Path("md.toml").read_text().replace('time = "10 ps"', "steps = 10")
    Path("md.toml").write_text(text)
    assert main(["md", "run", "md.toml"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "finished at step 10, 0.02 ps"
    Path("md.toml").write_text(text.replace("seed = 1", "sede = 1"))
    assert main(["md", "run", "md.toml"]) == 2
    assert capsys.readouterr().err == (
        "triskele md: md.toml: [simulation] has no key 'sede' (did you mean 'seed'? known: seed, precision)\n"
    )


# -- games -------------------------------------------------------------------------------------------------------------


def typed(monkeypatch, answer):
    """Answer every question for a move with a function of the question."""
    monkeypatch.setattr(builtins, "input", lambda question: (print(question), answer(question))[1])


def first_legal(question):
    return question.partition("(")[2].partition(",")[0].partition(")")[0]


@pytest.mark.parametrize(
    "game, side",
    [
        ("tic-tac-toe", "first"),
        ("TicTacToe", "second"),
        ("nim", "first"),
        ("pig", "second"),
    ],
)
def test_a_game_is_played_to_its_end(game, side, capsys, monkeypatch):
    typed(monkeypatch, lambda question: "hold" if game == "pig" and "hold" in question else first_legal(question))
    assert main(["play", game, "--level", "easy", "--side", side]) == 0
    out = capsys.readouterr().out
    assert f"you are {'x' if side == 'first' else 'o'} and move {side}" in out
    assert out.splitlines()[-1] in ("you win", "the search wins", "a draw")


def test_every_game_is_found_by_its_name():
    known = {name for name in dir(reinforce.games) if name != "MatrixGame"}
    assert {type(play.game_of(name)).__name__ for name in known} == known
    assert type(play.game_of("2048")).__name__ == "TwentyFortyEight"
    assert type(play.game_of("tic_tac-toe")).__name__ == "TicTacToe"


def test_a_game_of_one_player_is_played_alone(capsys, monkeypatch):
    typed(monkeypatch, first_legal)
    assert main(["play", "2048"]) == 0
    out = capsys.readouterr().out
    assert "you play alone" in out
    assert out.splitlines()[-1].startswith("the game is over: ")


def test_the_search_wins_where_it_can(capsys, monkeypatch):
    typed(monkeypatch, first_legal)
    assert main(["play", "connect-four", "--side", "second"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "the search wins"


@pytest.mark.parametrize("end", [EOFError, KeyboardInterrupt, "quit"])
def test_a_game_ends_when_nobody_types(end, capsys, monkeypatch):
    answers = iter(["nowhere", end])

    def answer(question):
        if isinstance(given := next(answers), str):
            return given
        raise given

    typed(monkeypatch, answer)
    assert main(["play", "tic-tac-toe"]) == 0
    out = capsys.readouterr().out
    assert "'nowhere' is not a legal move" in out
    assert out.endswith("bye\n")
