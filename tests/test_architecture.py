"""The tree's rules: imports go down, and dvc.yaml lists what each stage imports."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent

# Each module may import modules of the lines above its own, never of its own line.
LAYERS = [
    "arrays batches determinism faults files fingerprint hashed labels memory parallel params passes plugins progress "
    "row_parameter",
    "archive row_adam running_loss settings sheet shard threads",
    "batch_norm brought checkpoint corruption history large_loss losses metrics model recipe resizing results",
    "table transfer unobserved_loss",
    "datasets.source datasets.split decoding download engine evaluation methods.base plots profile selection weights",
    "datasets.instances datasets.members datasets.userfiles images",
    "datasets datasets.* inputs methods",
    "inference optimizer pseudo_labels",
    "methods.* validation",
    "linear_init preparation trajectories",
    "run_state",
    "check training",
    "experiment",
]
STAGES = ["download", "prepare", "corrupt", "train", "evaluate", "plot"]


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

    Packages that find their modules by name count with what can be found: all readers; of the methods, of which one
    is chosen, what any of them imports.
    """
    reached, waiting = set(), {name}
    while waiting:
        module = waiting.pop()
        reached.add(module)
        wanted = {found for found in imports(module) if found in MODULES}
        if module == "mlml.datasets":
            wanted |= {found for found in MODULES if found.startswith("mlml.datasets.")}
        if module == "mlml.methods":
            own = {found for found in MODULES if found.startswith("mlml.methods.")}
            wanted |= {found for each in own for found in imports(each) if found in MODULES and found not in own}
        waiting |= wanted - reached
    return reached


def layer(name: str) -> int:
    short = name.removeprefix("mlml.")
    for number, line in enumerate(LAYERS):
        if short in line.split():
            return number
    for number, line in enumerate(LAYERS):
        if f"{short.partition('.')[0]}.*" in line.split() and "." in short:
            return number
    raise AssertionError(f"{name} is in no layer of {__name__}.LAYERS")


@pytest.mark.parametrize("name", [name for name in MODULES if name.startswith("mlml.")])
def test_imports_go_down(name: str) -> None:
    for imported in imports(name):
        if imported.startswith("mlml."):
            package = name.startswith(f"{imported}.")  # the package a module is in always runs first
            assert package or layer(imported) < layer(name), f"{name} imports {imported}"
        assert not imported.startswith("stages"), f"{name} imports {imported}"


@pytest.mark.parametrize("name", [name for name in MODULES if name.startswith("mlml.")])
def test_typer_and_dvc_stay_in_the_stages(name: str) -> None:
    assert not imports(name) & {"typer", "dvc", "click"}


@pytest.mark.parametrize("stage", ["download", "prepare", "corrupt", "plot"])
def test_torch_is_not_imported_where_it_is_not_needed(stage: str) -> None:
    reached = {imported for name in closure(f"stages.{stage}") for imported in imports(name)}
    assert not reached & {"torch", "timm", "safetensors"}


def test_timm_is_not_imported_before_the_parameters_are_read() -> None:
    """It takes longer than all else together."""
    code = "import sys, stages.train, stages.evaluate; print({'timm', 'torchvision'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr


@pytest.mark.parametrize("stage", STAGES)
def test_stage_depends_on_what_it_imports(stage: str) -> None:
    declared = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"][stage]["deps"]
    code = [path for path in declared if path.endswith(".py")]
    reached = {str(MODULES[name].relative_to(ROOT)) for name in closure(f"stages.{stage}")}
    if "mlml/methods/__init__.py" in reached:
        reached.add("mlml/methods/${method}.py")
    assert code == sorted(reached), "deps of dvc.yaml should be:\n" + "\n".join(f"- {path}" for path in sorted(reached))
    assert declared == sorted(declared)


@pytest.mark.parametrize("stage", STAGES)
def test_stage_is_thin(stage: str) -> None:
    lines = (ROOT / f"stages/{stage}.py").read_text().splitlines()
    assert len(lines) <= 50


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
