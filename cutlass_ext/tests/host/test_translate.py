"""The translation of CUDA-only constructs, line by line."""

from __future__ import annotations

import pytest

from cutlass_ext.host import TranslationError, translate


def _squeeze(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    "source",
    [
        "int x = 1 << 2; // kernel<<<1, 2>>>(x)",
        'char const *s = "asm volatile(\\"nop;\\");";',
        "/* extern __shared__ int x[]; */",
        "#define FOO(x) __shared__ x",
        "int casm(int); int y = casm(3); object.asm (4);",
    ],
)
def test_other_code_is_left_alone(source):
    assert translate(source) == source


def test_asm_statement():
    source = (
        'asm volatile("add.u32 %0, %1, %2;\\n" : "=r"(x), "+r"(y) : "n"(f(1, "):")) : "memory");'
    )
    result = _squeeze(translate(source))
    assert 'Site cutlass_ext_site{"add.u32 %0, %1, %2;\\n" , __FILE__, __LINE__};' in result
    assert "ptx::output<'r'>(x)" in result
    assert "ptx::inout<'r'>(y)" in result
    assert "ptx::input<'n'>(f(1, \"):\"))" in result
    assert "memory" not in result
    assert result.startswith("do {") and result.endswith("} while (0);")


def test_asm_without_operands():
    result = translate('if (x) asm("bar.sync 0;"); else y();')
    assert result.startswith("if (x) do {")
    assert "while (0); else y();" in result


@pytest.mark.parametrize(
    "source",
    [
        'asm volatile(\n  "a;"\n  "b;"\n  : "=r"(x)\n  : "r"(y),\n    "r"(z)\n  : "memory"\n);\nend',  # noqa: E501
        'asm volatile(\n#if A\n "a;" :: "r"(x),\n#else\n "b;" :: "r"(x),\n#endif\n "l"(y));\nend',
        'asm volatile(\n "{"\n#if A\n "a;"\n#else\n "b;"\n#endif\n "}" : : "l"(y));\nend',
        '#define M(x) \\\n asm volatile("a;" \\\n  : "=r"(x) \\\n  : : "memory")\nend',
        "extern __shared__ int\n x[];\nend",
    ],
)
def test_line_numbers_are_kept(source):
    lines = translate(source).split("\n")
    assert lines[-1] == "end"
    assert len(lines) == len(source.split("\n"))


def test_directives_inside_asm():
    result = translate('asm(\n#if A\n "a;" :: "r"(x),\n#else\n "b;" :: "r"(x),\n#endif\n "l"(y));')
    before, rest = result.split("#else")
    assert "#if A" in before and '"a;"' in before and "input<'l'>(y)" in before
    assert '"b;"' in rest and "input<'l'>(y)" in rest


@pytest.mark.parametrize(
    ("source", "callee", "configuration"),
    [
        ("kernel<<<1, 2>>>(x);", "kernel", "1, 2"),
        (
            "ns::kernel<A, B<C>><<<dim3(1, 2), t, s, 0>>>(x);",
            "ns::kernel<A, B<C>>",
            "dim3(1, 2), t, s, 0",
        ),
        ("return kernel<(a < b)> <<< g, b >>>(x);", "kernel<(a < b)>", " g, b "),
    ],
)
def test_launch(source, callee, configuration):
    assert f"::cutlass_ext::host::launcher({callee}, {configuration})(x);" in translate(source)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "extern __shared__ __align__(128) uint8_t bytes[];",
            "uint8_t *bytes = static_cast<uint8_t *>(::cutlass_ext::host::dynamic_shared_memory());",  # noqa: E501
        ),
        (
            "__shared__ typename T::Storage storage;",
            "struct cutlass_ext_shared_storage { typename T::Storage storage; }; auto &storage = "
            "::cutlass_ext::host::static_shared_memory<cutlass_ext_shared_storage>().storage;",
        ),
        (
            "__shared__ alignas(16) float tile[32][33];",
            "struct cutlass_ext_shared_tile { alignas(16) float tile[32][33]; }; auto &tile = "
            "::cutlass_ext::host::static_shared_memory<cutlass_ext_shared_tile>().tile;",
        ),
    ],
)
def test_shared_memory(source, expected):
    assert _squeeze(translate(source)) == expected


def test_pragma_macro():
    assert translate("#define UNROLL #pragma unroll\n") == "#define UNROLL\n"


def test_unbalanced_asm_is_an_error():
    with pytest.raises(TranslationError, match="unbalanced brackets"):
        translate('asm volatile("nop;" : "=r"(x)')
