"""The shape of the house: no forks, no hidden imports, no cycles, no long files."""

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "diglm"
FILES = sorted(SOURCE.rglob("*.py"))
UPPER = ("refusal", "targets", "fitting", "predictor", "estimators")
OPTIONAL = {"orbax", "ray", "matplotlib", "pyarrow", "pandas", "polars"}

# Concrete kinds of data, targets, heads, responses, recipes, scores and rules. Who asks for one of
# them by name forks; the classes themselves and the registries may.
KINDS = (
    "TableEncoder|ImageEncoder|ClassTarget|NumberTarget|NoTarget|GLMHead|ConjugateHead|"
    "VariationalHead|MixedHead|NoHead|Softmax|Bayesian|BayesianPoisson|Mixed|MixedPoisson|Gaussian|"
    "Gaussians|StudentT|Categorical|Bernoulli|Poisson|NegativeBinomial|Gamma|GaussianMixture|Glow|"
    "CouplingFlow|SplineFlow|PlanarFlow|LinearFlow|IdentityFlow|Density|Conformal|Minimum|"
    "Contamination|Never|HybridClassifier|HybridRegressor|HybridDensity|Entropy|VirtualAdversarial"
)
FORKS = [
    re.compile(rf"isinstance\([^)]*\b({KINDS})\b"),
    re.compile(rf"\b(?:type\([^)]*\) is|case (?:heads\.)?)\s*({KINDS})\b"),
    re.compile(
        r"[!=]=\s*['\"](table|images?|vector|classes|numbers|accuracy|rmse|categorical|bayesian|mixed"
        r"|mixed_poisson|bayesian_poisson|poisson|gaussian|student_t|glow|coupling|density|minimum"
        r"|conformal|contamination|entropy|vat)['\"]"
    ),
    re.compile(r"\bis_image_array\("),
]


def name_of(path: Path) -> str:
    return ".".join(("diglm", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(
        ".__init__"
    )


def imported(tree: ast.AST, known: set[str]) -> set[str]:
    """Modules of diglm that are imported when a module is."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("diglm"):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in known else node.module for name in names}
    return found


@pytest.mark.parametrize("room", UPPER)
def test_nobody_asks_of_which_kind_something_is(room):
    forks = []
    for path in (SOURCE / room).rglob("*.py"):
        if path.name == "registry.py":
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            own = rf"class ({KINDS})\b"
            if any(fork.search(line) for fork in FORKS) and not re.search(own, line):
                forks.append(f"{path.relative_to(SOURCE)}:{number}: {line.strip()}")
    assert not forks, "\n".join(forks)


def test_the_patterns_find_a_fork():
    lines = [
        "if isinstance(encoder, ImageEncoder):",
        "if isinstance(model.head, ConjugateHead | VariationalHead):",
        "case heads.Gaussian():",
        "if target.metric == 'accuracy':",
    ]
    assert all(any(fork.search(line) for fork in FORKS) for line in lines)


def test_functions_import_only_packages_that_need_not_be_there():
    wrong = []
    for path in FILES:
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.Import):
                    modules = [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom):
                    modules = [node.module or ""]
                else:
                    continue
                wrong += [f"{path}: {m}" for m in modules if m.split(".")[0] not in OPTIONAL]
    assert not wrong, "\n".join(wrong)


def test_no_module_imports_itself_by_way_of_others():
    trees = {name_of(path): ast.parse(path.read_text()) for path in FILES}
    known = set(trees)
    graph = {name: imported(tree, known) & known - {name} for name, tree in trees.items()}
    done: set[str] = set()

    def visit(name: str, way: tuple[str, ...]) -> None:
        assert name not in way, " -> ".join((*way[way.index(name) :], name))
        if name in done:
            return
        for other in sorted(graph[name]):
            visit(other, (*way, name))
        done.add(name)

    for name in graph:
        visit(name, ())


def test_no_file_is_longer_than_three_hundred_lines():
    long = {str(p.relative_to(SOURCE)): len(p.read_text().splitlines()) for p in FILES}
    assert not {path: n for path, n in long.items() if n > 300}


def test_types_are_said_where_they_can_be():
    lines = [
        f"{path}:{number}"
        for room in UPPER
        for path in (SOURCE / room).rglob("*.py")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(r"\bAny\b", line)
    ]
    assert len(lines) <= 40, len(lines)
    assert (SOURCE / "py.typed").exists()


def test_tests_mirror_the_package():
    here = Path(__file__).parent
    rooms = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name[0] != "_"}
    tested = {path.name for path in here.iterdir() if path.is_dir()}
    assert rooms - tested <= {"models", "flows"}  # flows by what is made of them
