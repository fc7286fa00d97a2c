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
    for op, call in (("acos.out", "aclnnAcos(self, out)"), ("eq.Tensor_out", "aclnnEqTensor(self, other, out)"),
                     ("isposinf.out", "aclnnIsPosInf(self, out)"), ("hardshrink.out", "aclnnHardshrink(self, lambd, out)")):
        assert build(f"- op: {op}\n") == build(f"- op: {op}\n  aclnn: {call}\n")
    for op, function in (("view", "view"), ("nonzero.out", "nonzero_out"), ("random_.from", "random_from"),
                         ("normal.Tensor_float_out", "normal_tensor_float_out"), ("mode.values", "mode_out")):
        assert build(f"- op: {op}\n  reason: why\n") == build(f"- op: {op}\n  impl: {function}\n  reason: why\n")
    for op, function in (("fmax.out", "fmax_kernel"), ("special_entr.out", "entr_kernel"), ("_linalg_svd.U", "linalg_svd_kernel")):
        assert build(f"- op: {op}\n  reason: why\n") == build(f"- op: {op}\n  kernel: {function}\n  reason: why\n")
    [found] = mistake("- op: add_.Tensor\n  aclnn: aclnnAdd(self, other, alpha, self)\n")
    assert found.startswith("ops.yaml:1: add_.Tensor: is derived")
    [found] = mistake("- op: special_zeta.out\n")
    assert found.startswith("ops.yaml:1: special_zeta.out: CANN has no operator of its name")


def test_lists_of_tensors_share_their_condition_and_result(build):
    """`only_if` and `out` follow from the schema."""
    of_lists = "- op: _foreach_{}\n  only_if: uniform_lists({})\n  out: like_list({})\n"
    for op, uniform, first in (("abs", "{self}", "self"), ("add.List", "{self, other}, alpha", "self"),
                               ("lerp.Scalar", "{self, tensors1}, weight", "self"), ("pow.ScalarAndTensor", "{exponent}, self", "exponent")):
        call = "  aclnn: aclnnForeachAddListV2(self, other, alpha, out)\n" if op == "add.List" else ""
        assert build(f"- op: _foreach_{op}\n{call}") == build(of_lists.format(op, uniform, first) + call)
    unit, = build("- op: _foreach_copy_\n  aclnn: aclnnForeachCopy(src, self)\n")
    assert "if (!(uniform_lists({self, src}))) return at::native::" in unit.text and "like_list" not in unit.text


def test_a_group_is_an_entry_for_each_of_its_operators(build, mistake):
    assert build("- ops: [view, unfold]\n  reason: a view\n") == build("- op: view\n  reason: a view\n- op: unfold\n  reason: a view\n")
    assert mistake("- ops: [view,\n    viev]\n  reason: a view\n")[0].startswith("ops.yaml:2: viev: torch")
    assert mistake("- ops: [view]\n  op: view\n  reason: a view\n")[0].startswith("ops.yaml:2: 'op' stands twice")
    assert mistake("- ops: [[view]]\n  reason: a view\n")[0].startswith("ops.yaml:1: entry: 'op' must be")
    assert mistake("- ops: view\n  reason: a view\n")[0].startswith("ops.yaml:1: unknown key 'ops'")


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
