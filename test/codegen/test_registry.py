"""Mistakes in the registry's own form: each is found, with the line it stands on."""
import pytest

ADD = "- op: add.out\n  aclnn: aclnnAdd(self, other, alpha, out)\n"


@pytest.mark.parametrize("text, message", [
    (ADD + "  alcnn: aclnnAdd()\n", "ops.yaml:3: unknown key 'alcnn'"),
    (ADD + "  aclnn: aclnnAdd()\n", "ops.yaml:3: 'aclnn' stands twice in this entry"),
    ("\n# twice\n" + ADD + ADD, "ops.yaml:5: add.out: stands twice, first at line 3"),
    (ADD + "  impl: add\n  reason: none\n", "ops.yaml:1: add.out: has more than one of 'aclnn', 'impl' and 'kernel'"),
    ("- aclnn: aclnnAdd()\n", "ops.yaml:1: entry: 'op' is missing"),
    ("- op: view\n  impl: view\n", "ops.yaml:1: view: 'impl' needs a 'reason'"),
    (ADD + "  reason: because\n", "ops.yaml:1: add.out: 'reason' belongs to 'impl' or 'kernel'"),
    ("- op: view\n  impl: view\n  reason: a view\n  out: like(self)\n", "ops.yaml:1: view: 'impl' stands alone"),
    (ADD + "  since: new\n", "ops.yaml:3: add.out: 'since' is a torch version such as \"2.10\", not 'new'"),
    (ADD + "  variants: [functional, view]\n", "ops.yaml:3: add.out: 'variants' are of functional, inplace, out"),
    (ADD + "  when: [{if: x}]\n", "ops.yaml:3: add.out: 'when' is a list of {if: condition, aclnn: call}"),
    (ADD + "  scalar: other\n", "ops.yaml:3: add.out: 'scalar' maps an argument to a call"),
    (ADD + "  pointwise: int\n", "ops.yaml:3: add.out: 'pointwise' is one of bool, none, not 'int'"),
    (ADD + "  symint: maybe\n", "ops.yaml:3: add.out: 'symint' is true or false"),
    ("- add.out\n", "ops.yaml:1: an entry is a mapping"),
    ("op: add.out\n", "ops.yaml:1: the registry is a list of entries"),
    (ADD + "- op: [\n", "ops.yaml:4: not YAML"),
    # What is YAML all the same.
    (ADD + "  ? [a, b]\n  : x\n", "ops.yaml:3: unknown key 'that is no text'"),
    (ADD + "  {a: b}: x\n", "ops.yaml:3: unknown key 'that is no text'"),
    (ADD + "  <<: {op: x}\n", "ops.yaml:3: unknown key '<<'"),
    (ADD + "  out: &a [*a]\n", "ops.yaml:3: add.out: 'out' is one shape rule"),
    (ADD + "  out: &a {x: *a}\n", "ops.yaml:3: add.out: 'out' is one shape rule"),
    (ADD + "  out: {x: y, x: z}\n", "ops.yaml:3: add.out: 'out' is one shape rule"),
    (ADD + "  when: &a [*a]\n", "ops.yaml:3: add.out: 'when' is a list"),
    (ADD + "  when: [{if: [x], aclnn: y}]\n", "ops.yaml:3: add.out: 'when' is a list"),
    (ADD + "  scalar: {? [other] : x}\n", "ops.yaml:3: add.out: 'scalar' maps"),
    (ADD + "  variants: [[out]]\n", "ops.yaml:3: add.out: 'variants' are"),
    (ADD + "  variants: out\n", "ops.yaml:3: add.out: 'variants' are"),
    (ADD + "  since: [2.10]\n", "ops.yaml:3: add.out: 'since' is"),
    (ADD + "  since: 99999999999.1\n", "ops.yaml:3: add.out: 'since' is"),
    (ADD + "  symint: {}\n", "ops.yaml:3: add.out: 'symint' is"),
    (ADD + "- *nothing\n", "ops.yaml:3: not YAML"),
    ("- &a\n  " + ADD[2:] + "- *a\n", "ops.yaml:1: add.out: stands twice"),
    (ADD + "--- again\n", "ops.yaml:3: not YAML"),
    (ADD + "- op: \x00\n", "ops.yaml:3: not YAML"),
    ("- op: " + "[" * 5000 + "]" * 5000 + "\n", "ops.yaml:1: "),
    ((ADD + "# caf\xe9\n").encode("latin-1"), "ops.yaml:3: not UTF-8"),
    ((ADD + "x").encode("utf-16"), "ops.yaml:1: not UTF-8"),
    (b"\xef\xbb\xbf" + (ADD + "  pointwise: int\n").encode(), "ops.yaml:3: add.out: 'pointwise'"),
])
def test_mistake_is_named_with_its_line(mistake, text, message):
    assert any(found.startswith(message) for found in mistake(text)), mistake(text)


def test_all_mistakes_are_reported_at_once(mistake):
    found = mistake("- op: one\n  symint: x\n- op: two\n  aclnn: f()\n  key: 1\n")
    assert [error.partition(": ")[0] for error in found] == ["ops.yaml:2", "ops.yaml:5"]


def test_what_an_entry_does_not_name(build, mistake):
    """CANN's operator of the same name with the schema's arguments and outputs; with a reason the function of that name."""
    assert build("- op: acos.out\n") == build("- op: acos.out\n  aclnn: aclnnAcos(self, out)\n")
    assert build("- op: view\n  reason: why\n") == build("- op: view\n  impl: view\n  reason: why\n")
    [found] = mistake("- op: add_.Tensor\n")
    assert found.startswith("ops.yaml:1: add_.Tensor: is derived")
    [found] = mistake("- op: argmax.out\n")
    assert found.startswith("ops.yaml:1: argmax.out: aclnnArgmax is not in the contract")


def test_versions_are_not_read_as_numbers(build):
    assert build(ADD + "  since: 2.10\n", torch=(2, 9)) == []
    assert len(build(ADD + "  since: 2.10\n", torch=(2, 10))) == 1
    assert len(build(ADD + "  until: 2.9\n", torch=(2, 9))) == 1
    assert build(ADD + "  until: 2.9\n", torch=(2, 10)) == []


def test_an_operator_may_stand_twice_for_different_versions(build, mistake):
    text = ADD + "  until: 2.9\n" + ADD + "  since: 2.10\n"
    assert [len(build(text, torch=(2, minor))) for minor in (9, 10)] == [1, 1]
    assert mistake(ADD + "  until: 2.10\n" + ADD + "  since: 2.10\n") == ["ops.yaml:4: add.out: stands twice, first at line 1"]


def test_empty_registry(build):
    assert build("# nothing yet\n") == []
