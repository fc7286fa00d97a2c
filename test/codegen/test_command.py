"""The command line: outputs known beforehand, deterministic, and rewritten only when they change."""
import subprocess
import sys

from generator_inputs import CONTRACT, REGISTRY, ROOT, torch_folder

from codegen import contract, emit, kernels, registry

COMMAND = ["--torch-dir", str(torch_folder()), "--contract", str(CONTRACT)]


def run(*arguments):
    return subprocess.run([sys.executable, "-m", "codegen", *map(str, arguments)], cwd=ROOT, text=True, capture_output=True)


def stamps(folder):
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


def test_list_names_the_outputs(tmp_path):
    listed = run("--out", tmp_path, "--list").stdout.split()
    made = run(*COMMAND, "--registry", REGISTRY, "--out", tmp_path)
    assert made.returncode == 0, made.stderr
    assert sorted(listed) == sorted(map(str, tmp_path.iterdir()))


def test_second_run_touches_nothing(tmp_path):
    run(*COMMAND, "--registry", REGISTRY, "--out", tmp_path)
    before = stamps(tmp_path)
    second = run(*COMMAND, "--registry", REGISTRY, "--out", tmp_path)
    assert stamps(tmp_path) == before and f"0 of {len(before)} files changed" in second.stdout


def test_new_operator_changes_its_shard_only(tmp_path):
    registry = tmp_path / "ops.yaml"
    registry.write_text("- op: add.out\n  aclnn: aclnnAdd(self, other, alpha, out)\n")
    out = tmp_path / "out"
    run(*COMMAND, "--registry", registry, "--out", out)
    before = stamps(out)
    registry.write_text(registry.read_text() + "- op: view\n  impl: view\n  reason: a view\n")
    run(*COMMAND, "--registry", registry, "--out", out)
    changed = {name for name, stamp in stamps(out).items() if before[name] != stamp}
    assert changed == {f"register_{emit.shard_of('view'):02}.cpp", emit.DECLARATIONS, emit.TABLE}


def test_order_of_entries_does_not_matter(tmp_path, torch_schemas, aclnn):
    entries = registry.load(REGISTRY)
    for name, order in (("a", entries), ("b", entries[::-1])):
        emit.write(kernels.build(order, torch_schemas, aclnn), [], "", [], {}, tmp_path / name)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_mistake_ends_the_run_and_leaves_the_files(tmp_path):
    registry = tmp_path / "ops.yaml"
    registry.write_text("- op: add.out\n  aclnn: aclnnAdd(self, other, out)\n")
    result = run(*COMMAND, "--registry", registry, "--out", tmp_path / "out")
    assert result.returncode == 1 and f"{registry}:1: add.out: aclnnAdd takes 4 arguments" in result.stderr
    assert not (tmp_path / "out").exists()


def test_folder_without_torchgen(tmp_path):
    result = run("--torch-dir", tmp_path / "torch", "--contract", CONTRACT, "--registry", REGISTRY, "--out", tmp_path / "out")
    assert result.returncode == 1 and "no torchgen beside" in result.stderr


def test_torch_is_not_imported(tmp_path):
    code = ("import sys; from codegen.__main__ import main; "
            f"main({[*COMMAND, '--registry', str(REGISTRY), '--out', str(tmp_path)]!r}); sys.exit('torch' in sys.modules)")
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, text=True, capture_output=True)
    assert result.returncode == 0, result.stderr


def test_shards_are_of_like_size(torch_schemas, aclnn):
    sizes = [0] * emit.SHARDS
    for unit in kernels.build(registry.load(REGISTRY), torch_schemas, aclnn):
        sizes[emit.shard_of(unit.root)] += len(unit.registered)
    assert max(sizes) < 2 * sum(sizes) / len(sizes)


def test_generated_names_are_unique(torch_schemas, aclnn):
    functions = [f for unit in kernels.build(registry.load(REGISTRY), torch_schemas, aclnn) for _, f in unit.registered]
    assert len(set(functions)) == len(functions)


def test_contract_is_read_by_its_own_parser():
    operators = contract.load(CONTRACT)
    assert [p.kind for p in operators["aclnnAdd"].params] == ["T", "T", "S", "T!"]
