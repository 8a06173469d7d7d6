"""`make affected` finds the tests that a change reaches, and `make test` runs each file once."""

import pytest

from tests import __main__ as runner
from tests.affected import ROOT, imports


def used(code):
    return {str(path.relative_to(ROOT)) for path in imports(code, ROOT / "tests" / "somewhere.py")}


@pytest.mark.parametrize(
    "code, file",
    [
        ("from triskele import sponge\nsponge.NoseHoover(300)", "sponge/integrators/nose_hoover.py"),
        ("from triskele import core as c\nc.nn.MLP.init(0)", "core/nn/layers.py"),
        ("from triskele.core.extend import disk_cache", "core/disk/disk_cache.py"),
        ('from triskele import reinforce as rl\nrl.SAC("Pendulum-v1")', "reinforce/agents/sac.py"),
        ("import tests.twins.mcts", "tests/twins/mcts.py"),
    ],
)
def test_names_lead_to_the_files_that_define_them(code, file):
    assert (ROOT / file).is_file() and file in used(code)


def test_a_package_that_discovers_its_modules_uses_all_of_them():
    package = ROOT / "core" / "ops" / "__init__.py"
    assert ROOT / "core" / "ops" / "reduce.py" in imports(package.read_text(), package)


def test_a_name_uses_no_other_file_of_its_package():
    assert not {"sponge/sampling/sits.py", "quantum/circuit.py"} & used("from triskele import sponge\nsponge.load")


def test_groups_hold_each_file_once_in_one_folder_each():
    names = runner.files([ROOT / "tests"])
    groups = runner.groups(names)
    assert sorted(name for group in groups for name in group) == names
    assert all(len({name.rpartition("/")[0] for name in group}) == 1 for group in groups)
