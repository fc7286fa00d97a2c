"""The generator's tests: torch's schemas are read once; torch itself is not needed and not imported here."""
import pathlib
import sys

import pytest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[2])]

from generator_inputs import CONTRACT, torch_folder  # noqa: E402

from codegen import contract, kernels, registry, schemas  # noqa: E402


@pytest.fixture(scope="session")
def torch_schemas():
    return schemas.load(torch_folder())


@pytest.fixture(scope="session")
def aclnn():
    return contract.load(CONTRACT)


@pytest.fixture
def build(tmp_path, torch_schemas, aclnn):
    """build(yaml text) -> units; `torch` stands in for the installed version."""
    def run(text, torch=None):
        path = tmp_path / "ops.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        known = torch_schemas if torch is None else torch_schemas._replace(torch_version=torch)
        return kernels.build(registry.load(path), known, aclnn)
    return run


@pytest.fixture
def mistake(build):
    """mistake(yaml text) -> the messages, each without the folder: 'ops.yaml:2: ...'."""
    def run(text, torch=None):
        from codegen.errors import RegistryErrors
        with pytest.raises(RegistryErrors) as caught:
            build(text, torch)
        return [str(error).rpartition("/")[2] for error in caught.value.errors]
    return run
