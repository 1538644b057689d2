"""Translation of CUDA sources into C++ that a host compiler accepts.

What nvcc alone understands is rewritten in place; everything else, line numbers included, stays:

- an ``asm`` statement becomes a call of the PTX interpreter (``cutlass_ext/host/ptx.h``),
- ``kernel<<<grid, block, shared, stream>>>(arguments)`` becomes a call of ``launcher``,
- ``extern __shared__ T name[];`` becomes a pointer to the block's dynamic shared memory,
- ``__shared__ T name;`` becomes a reference into the block's static shared memory,
- a macro that expands to ``#pragma`` expands to nothing.
"""

from __future__ import annotations

import re

_LITERAL = r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.[^'\n]*|[^'\\\n])'"""
_ASM = re.compile(
    rf"(?P<literal>{_LITERAL})"
    r"|(?<![\w.])(?:asm|__asm__|__asm)\b\s*(?:(?:volatile|__volatile__)\b\s*)?\(",
    re.S,
)
_BRACKET = re.compile(rf"(?P<literal>{_LITERAL})|[()\[\]{{}}]", re.S)
_SEPARATOR = re.compile(rf"(?P<literal>{_LITERAL})|[()\[\]{{}}:,]", re.S)
_OPERAND = re.compile(r'"([=+&]*)([a-zA-Z])"\s*\(')
_CONDITIONAL = re.compile(
    r"(?P<before>[^#]*\n|\n?)(?P<if>[ \t]*#[ \t]*if[^\n]*\n)(?P<first>[^#]*)"
    r"(?P<else>[ \t]*#[ \t]*else[^\n]*\n)(?P<second>[^#]*)(?P<endif>[ \t]*#[ \t]*endif[^\n]*\n)"
    r"(?P<after>[^#]*)",
)
_PRAGMA_MACRO = re.compile(r"^([ \t]*#[ \t]*define[ \t]+\w+)[ \t]+#pragma\b[^\n]*$", re.M)
_SHARED = re.compile(
    rf"(?P<literal>{_LITERAL})|(?P<define>^[ \t]*#[^\n]*)"
    r"|(?P<head>(?:extern\s+)?(?:(?:__align__|alignas)\s*\([^()]*(?:\([^()]*\)[^()]*)*\)\s*)?"
    r"__shared__\b\s*)(?P<declaration>[^;{}]*(?:\{[^{}]*\}[^;{}]*)?);",
    re.S | re.M,
)
_ALIGNMENT = re.compile(r"(?:__align__|alignas)\s*(\((?:[^()]|\([^()]*\))*\))\s*")
_DECLARATOR = re.compile(r"(\w+)\s*((?:\[[^\]]*\]\s*)*)$")

HOST = "::cutlass_ext::host"


class TranslationError(ValueError):
    """A construct of CUDA C++ that the translation does not know."""


def translate(source: str) -> str:
    """Translates one file; text without CUDA-only constructs comes back unchanged."""
    if "#pragma" in source:
        source = _PRAGMA_MACRO.sub(r"\1", source)
    if "<<<" in source:
        source = _translate_launches(source)
    if "__shared__" in source:
        source = _SHARED.sub(_translate_shared, source)
    if "asm" in source:
        source = _translate_asm(source)
    return source


def _closing(text: str, opening: int) -> int:
    """Index of the bracket that closes the one at `opening`."""
    depth = 0
    for token in _BRACKET.finditer(text, opening):
        if token.lastgroup == "literal":
            continue
        depth += 1 if token.group() in "([{" else -1
        if depth == 0:
            return token.start()
    raise TranslationError(f"unbalanced brackets: {text[opening : opening + 80]!r}")


def _sections(body: str) -> list[str]:
    """Splits the inside of an asm statement at its top-level colons."""
    sections, depth, start = [], 0, 0
    for token in _SEPARATOR.finditer(body):
        if token.lastgroup == "literal":
            continue
        character = token.group()
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == ":" and depth == 0:
            sections.append(body[start : token.start()])
            start = token.end()
    sections.append(body[start:])
    return sections


def _operands(section: str, function: str) -> str:
    """Turns `"r"(x), "n"(4)` into calls of `function`; comments and directives are kept."""
    pieces, position = [], 0
    while match := _OPERAND.search(section, position):
        modifiers, constraint = match.groups()
        opening = match.end() - 1
        end = _closing(section, opening) + 1
        name = "inout" if "+" in modifiers else function
        pieces.append(section[position : match.start()])
        pieces.append(f"{HOST}::ptx::{name}<'{constraint}'>{section[opening:end]}")
        position = end
    pieces.append(section[position:])
    return "".join(pieces)


def _translate_asm_statement(body: str) -> str:
    sections = _sections(body)
    outputs = _operands(sections[1], "output") if len(sections) > 1 else ""
    inputs = _operands(sections[2], "input") if len(sections) > 2 else ""
    clobbers = "".join(sections[3:])
    both = _has_code(outputs) and _has_code(inputs)
    operands = outputs + ("," if both else "") + inputs
    if _has_code(operands):
        operands += ","
    # The line count of what is dropped is kept, so that messages name the original line.
    padding = ("\\\n" if "\\\n" in body else "\n") * clobbers.count("\n")
    return (
        f"do {{ static {HOST}::ptx::Site cutlass_ext_site{{{sections[0]}, __FILE__, __LINE__}}; "
        f"{HOST}::ptx::Operand cutlass_ext_operands[] = {{{operands} {HOST}::ptx::Operand{{}}}}; "
        f"{HOST}::ptx::execute(cutlass_ext_site, cutlass_ext_operands);{padding} }} while (0)"
    )


def _translate_asm_branches(body: str) -> str | None:
    """An asm statement whose text *and* operands stand in the branches of one `#if`.

    Each branch becomes a statement of its own; null where the body is not of this kind.
    """
    match = _CONDITIONAL.fullmatch(body)
    if match is None or not any(len(_sections(match[name])) > 1 for name in ("first", "second")):
        return None
    before, after = (
        " ".join(re.sub(r"//[^\n]*", "", match[name]).split("\n")) for name in ("before", "after")
    )
    first, second = (
        _translate_asm_statement(before + match[name].removesuffix("\n") + after)
        for name in ("first", "second")
    )
    return (
        "\n" * match["before"].count("\n")
        + f"{match['if']}{first}\n{match['else']}{second}\n{match['endif']}"
        + "\n" * match["after"].count("\n")
    )


def _has_code(section: str) -> bool:
    return "::ptx::" in section


def _translate_asm(source: str) -> str:
    pieces, position = [], 0
    while match := _ASM.search(source, position):
        if match.lastgroup == "literal":
            pieces.append(source[position : match.end()])
            position = match.end()
            continue
        closing = _closing(source, match.end() - 1)
        pieces.append(source[position : match.start()])
        body = source[match.end() : closing]
        pieces.append(_translate_asm_branches(body) or _translate_asm_statement(body))
        position = closing + 1
    pieces.append(source[position:])
    return "".join(pieces)


def _callee_start(source: str, end: int) -> int:
    """Index where the callee that ends before `end` begins: `ns::kernel<A, B<C>>`."""
    position = end
    while source[position - 1].isspace():
        position -= 1
    if source[position - 1] == ">":
        angles = parentheses = 0
        while True:
            position -= 1
            character = source[position]
            parentheses += (character == ")") - (character == "(")
            if parentheses == 0:  # elsewhere < and > compare
                angles += (character == ">") - (character == "<")
                if angles == 0 and character == "<":
                    break
        while source[position - 1].isspace():
            position -= 1
    while source[position - 1].isalnum() or source[position - 1] in "_:":
        position -= 1
    return position


def _translate_launches(source: str) -> str:
    literals = [match.span() for match in re.finditer(_LITERAL, source, re.S)]
    pieces, position = [], 0
    for match in re.finditer("<<<", source):
        if any(start <= match.start() < end for start, end in literals):
            continue
        start = _callee_start(source, match.start())
        end = source.find(">>>", match.end())
        if end < 0 or start < position:
            raise TranslationError(f"launch: {source[match.start() : match.start() + 80]!r}")
        callee, configuration = source[start : match.start()].strip(), source[match.end() : end]
        pieces.append(source[position:start])
        pieces.append(f"{HOST}::launcher({callee}, {configuration})")
        position = end + 3
    pieces.append(source[position:])
    return "".join(pieces)


def _translate_shared(match: re.Match[str]) -> str:
    if match["literal"] or match["define"]:
        return match.group()
    head, declaration = match["head"], match["declaration"]
    alignment = "".join(f"alignas{a}" for a in _ALIGNMENT.findall(head + declaration))
    declaration = _ALIGNMENT.sub("", declaration).strip()
    declarator = _DECLARATOR.search(declaration)
    if declarator is None:
        raise TranslationError(f"shared memory: {match.group()!r}")
    name, extents = declarator.groups()
    if "extern" in head or "extern" in declaration:
        element = declaration[: declarator.start()].replace("extern", "").strip()
        return (
            f"{element} *{name} = static_cast<{element} *>({HOST}::dynamic_shared_memory());"
            + "\n" * (match.group().count("\n") - element.count("\n"))
        )
    holder = f"cutlass_ext_shared_{name}"
    return (
        f"struct {holder} {{ {alignment} {declaration}; }}; "
        f"auto &{name} = {HOST}::static_shared_memory<{holder}>().{name};"
        + "\n"
        * (match.group().count("\n") - declaration.count("\n"))
    )
