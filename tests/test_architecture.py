"""The tree's rules: dvc.yaml lists what each stage imports. In which direction imports go is in pyproject.toml."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent

STAGES = ["check", "download", "prepare", "corrupt", "train", "evaluate", "plot"]


def modules() -> dict[str, Path]:
    """Dotted name -> file, of mlml and stages."""
    found = {}
    for path in sorted([*ROOT.glob("mlml/**/*.py"), *ROOT.glob("stages/*.py")]):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imports(name: str) -> set[str]:
    """What a module imports, at any depth of its code: own modules by full name, others by their first part."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[name].read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: relative import"
            assert node.module
            names = [node.module]
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            names += [module for module in inner if module in MODULES]
        else:
            continue
        for module in names:
            found.add(module if module in MODULES else module.partition(".")[0])
    # Importing a.b runs a too.
    found |= {module.rpartition(".")[0] for module in found if "." in module}
    return found - {name}


def closure(name: str) -> set[str]:
    """Own modules that run when `name` is imported, itself included.

    A package that finds its modules by name reaches all of them: readers, methods.
    """
    registries = {"mlml.datasets.readers", "mlml.methods"}
    reached, waiting = set(), {name}
    while waiting:
        module = waiting.pop()
        reached.add(module)
        wanted = {each for each in imports(module) if each in MODULES}
        if module in registries:
            wanted |= {each for each in MODULES if each.rpartition(".")[0] == module}
        waiting |= wanted - reached
    return reached


def test_timm_is_not_imported_before_the_parameters_are_read() -> None:
    """It takes longer than all else together."""
    code = "import sys, stages.train, stages.evaluate; print({'timm', 'torchvision'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr


def under(dependency: str) -> set[str]:
    """The files that a dependency of dvc.yaml stands for."""
    if dependency == "mlml/methods/${method}.py":
        return {str(path.relative_to(ROOT)) for path in ROOT.glob("mlml/methods/*.py")} - {
            "mlml/methods/__init__.py",
            "mlml/methods/base.py",
        }
    path = ROOT / dependency
    return {str(file.relative_to(ROOT)) for file in (path.rglob("*.py") if path.is_dir() else [path])}


@pytest.mark.parametrize("stage", STAGES[1:])  # the output of check is the same whatever the code
def test_a_stage_depends_on_the_code_that_it_imports(stage: str) -> None:
    declared = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"][stage]["deps"]
    assert declared == sorted(declared)
    code = {each: under(each) for each in declared if each.startswith(("mlml/", "stages/"))}
    reached = {str(MODULES[name].relative_to(ROOT)) for name in closure(f"stages.{stage}")}
    assert reached - set().union(*code.values()) == set(), "imported, and under no dependency"
    assert [each for each, files in code.items() if not files & reached] == [], "dependencies that are not imported"
    watched = set().union(*(files for each, files in code.items() if each != "mlml/core"))
    assert watched - reached == set(), "under a dependency, and not imported"


@pytest.mark.parametrize("stage", STAGES)
def test_stage_is_thin(stage: str) -> None:
    lines = (ROOT / f"stages/{stage}.py").read_text().splitlines()
    assert len(lines) <= 60


def test_every_stage_and_parameter_is_described() -> None:
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
    assert list(stages) == STAGES
    assert all(stage["desc"] for stage in stages.values())
    for line in (ROOT / "params.yaml").read_text().splitlines():
        key = line.partition(":")[0]
        assert not line or "#" in line, f"params.yaml: {key.strip()} has no comment"


def keys(values: object) -> set[str]:
    if isinstance(values, dict):
        return set(values).union(*map(keys, values.values()))
    return set().union(*map(keys, values)) if isinstance(values, list) else set()


@pytest.mark.parametrize("file", ["params.yaml", *(str(p.relative_to(ROOT)) for p in ROOT.glob("datasets/*/*.yaml"))])
def test_no_parameter_has_a_name_that_the_run_cache_leaves_out(file: str) -> None:
    """DVC's run cache takes two runs that differ only in a key `size` or `nfiles`, at any depth, for one."""
    assert not keys(yaml.safe_load((ROOT / file).read_text())) & {"size", "nfiles"}
