"""Finds the expressions of a C file that can be switched at run time, and small changes of them.

An expression here is what a function computes at one place and C lets stand between parentheses: a condition, an
initial value, what is returned, the argument of TRY, a whole expression statement. A mutant is one of them with
something changed in it; the changed copy has `(MUTANT(n) ? (changed) : (original))` in its place.
"""
import re
from dataclasses import dataclass, field

TOKEN = re.compile(r"""
    (?P<space>\s+|/\*.*?\*/|//[^\n]*|^[ \t]*\#(?:[^\n\\]|\\.)*)
  | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
  | (?P<number>(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)[a-zA-Z]*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<sign><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)
""", re.X | re.S | re.M)
OPEN, CLOSE = "([{", ")]}"
TYPES = set("const int double float char bool void long unsigned size_t struct enum union register".split())
WRAPPERS = {"TRY", "TRY_OR_DONE"}


@dataclass
class Token:
    kind: str
    text: str
    start: int
    end: int


@dataclass
class Expression:
    """Where it lies in the file, its tokens, and whether its value is dropped."""
    start: int
    end: int
    function: str
    tokens: list
    statement: bool = False
    wrapper: bool = False
    mutants: list = field(default_factory=list)


def tokens_of(text):
    found = (Token(m.lastgroup, m.group(), m.start(), m.end()) for m in TOKEN.finditer(text))
    return [token for token in found if token.kind != "space"]


def squeeze(text):
    """One line, without comments."""
    return " ".join(re.sub(r"/\*.*?\*/", " ", text, flags=re.S).split())


class Finder:
    """Walks the function bodies of a file statement by statement."""

    def __init__(self, text):
        self.text = text
        self.tokens = tokens_of(text)
        self.function = ""
        self.found = []

    def at(self, i):
        return self.tokens[i].text if 0 <= i < len(self.tokens) else ""

    def closing(self, i):
        """The token that closes the bracket at i."""
        depth = 0
        for k in range(i, len(self.tokens)):
            depth += (self.at(k) in OPEN) - (self.at(k) in CLOSE)
            if depth == 0:
                return k
        return len(self.tokens)

    def until(self, i, stop, ends):
        """The first token from i on, outside of brackets, whose text is one of `ends`."""
        while i < stop and self.at(i) not in ends:
            i = self.closing(i) + 1 if self.at(i) in OPEN else i + 1
        return min(i, stop)

    def find(self):
        i = 0
        while i < len(self.tokens):
            if self.at(i) == "{":
                end = self.closing(i)
                name = self.named(i)
                if name:
                    self.function = name
                    self.block(i + 1, end)
                i = end
            i += 1
        return self.found

    def named(self, brace):
        """The function whose body begins here; '' for other braces."""
        if self.at(brace - 1) != ")":
            return ""
        depth = 0
        for k in range(brace - 1, -1, -1):
            depth += (self.at(k) == ")") - (self.at(k) == "(")
            if depth == 0:  # after NAME(function) the bracket's last word is the name
                return self.at(k - 1) if self.at(k - 1) != ")" else self.at(k - 2)
        return ""

    def block(self, i, stop):
        while i < stop:
            i = self.statement(i, stop)

    def statement(self, i, stop):
        """Collects the expressions of the statement at i; the token after it."""
        word = self.at(i)
        if word in ("{", "}", ";", "else", "do"):
            return i + 1
        if word in ("if", "while", "switch"):
            end = self.closing(i + 1)
            if word != "switch":
                self.add(i + 2, end)
            return end + 1
        if word == "for":
            return self.loop(i)
        if word in ("case", "default") or self.at(i + 1) == ":":
            return self.until(i, stop, ":") + 1
        end = self.until(i, stop, ";")
        if word == "return":
            self.add(i + 1, end)
        elif word not in ("goto", "break", "continue", "static", "typedef", "extern"):
            self.simple(i, end)
        return end + 1

    def loop(self, i):
        end = self.closing(i + 1)
        first = self.until(i + 2, end, ";")
        second = self.until(first + 1, end, ";")
        self.simple(i + 2, first)
        self.add(first + 1, second)
        return end + 1

    def simple(self, i, end):
        """A declaration, a call or an assignment."""
        if self.declares(i):
            self.values(i, end)
        elif self.at(i) in WRAPPERS and self.closing(i + 1) == end - 1:
            self.add(i + 2, end - 1, wrapper=True)
        elif not (self.at(i).isupper() and self.at(i + 1) == "("):
            self.add(i, end, statement=True)

    def declares(self, i):
        if self.at(i) in TYPES:
            return True
        if self.tokens[i].kind != "name":
            return False
        i += 1
        while self.at(i) == "*":
            i += 1
        # a * b = c is no statement, so a star after a name begins a pointer.
        return self.tokens[i].kind == "name" and self.at(i + 1) in ("=", ";", ",", "[")

    def values(self, i, end, listed=False):
        """Initial values, one by one, also those in braces."""
        while i < end:
            stop = self.until(i, end, ",")
            k = self.until(i, stop, "=")
            first = k + 1 if k < stop else i
            if self.at(first) == "{":
                self.values(first + 1, self.closing(first), listed=True)
            elif k < stop or listed:
                self.add(first, stop)
            i = stop + 1

    def add(self, i, end, **kind):
        if i >= end:
            return
        start, stop = self.tokens[i].start, self.tokens[end - 1].end
        if "\n#" not in self.text[start:stop]:
            self.found.append(Expression(start, stop, self.function, self.tokens[i:end], **kind))


SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&",
         "+": "-", "-": "+", "*": "/", "/": "*", "+=": "-=", "-=": "+=", "++": "--",
         "min64": "max64", "max64": "min64", "fmin": "fmax", "fmax": "fmin", "floor": "ceil", "ceil": "floor",
         "sin": "cos", "cos": "sin", "true": "false", "false": "true"}
BOTH_SIDES = {"<", ">", "+", "-", "*", "/"}
# Sizes of allocations and freeing are for the sanitizers, messages for tests of messages.
NOT_CHANGED = re.compile(r"\b(fail|fail_\w+|mem_alloc|mem_\w+|\w*_free|free|\w*close\w*|snprintf|memset)\b")


def larger(number):
    """A constant changed a little; None for those that are left alone, such as tolerances."""
    if re.fullmatch(r"\d+[uUlL]*", number):
        digits = number.rstrip("uUlL")
        return str(int(digits) + 1) + number[len(digits):]
    if not re.fullmatch(r"[\d.]+(?:[eE][-+]?\d+)?f?", number):
        return None
    value = float(number.rstrip("f"))
    if value != 0 and not 1e-3 < value < 1e6:
        return None
    return f"{value * 1.01 if value else 0.01:.17g}" + ("f" if number.endswith("f") else "")


def is_binary(before, after):
    """Whether a sign between these two tokens has an operand on both sides."""
    left = before is not None and (before.kind in ("name", "number") or before.text in (")", "]"))
    return left and before.text not in TYPES | {"return", "sizeof"} and after is not None and after.text != ")"


def changes(expression):
    """(token, its replacement) for each place where a rule fits."""
    tokens = expression.tokens
    for k, token in enumerate(tokens):
        before = tokens[k - 1] if k else None
        after = tokens[k + 1] if k + 1 < len(tokens) else None
        if token.kind == "number":
            new = larger(token.text)
        elif token.text in BOTH_SIDES and not is_binary(before, after):
            new = None
        else:
            new = SWAPS.get(token.text) if token.kind in ("sign", "name") else None
        if new:
            yield token, new


def automatic(text, expression):
    """The changed texts of an expression, by the rules above."""
    original = text[expression.start:expression.end]
    if NOT_CHANGED.search(original) or "MUTANT" in original:
        return
    for token, new in changes(expression):
        at = token.start - expression.start
        yield squeeze(original[:at] + new + original[at + len(token.text):])
    if expression.wrapper:
        yield "TOMOS_OK"
    elif expression.statement:
        yield "0"


def switched(text, expressions):
    """The file with every mutant of the expressions in it, lines where they were."""
    for e in sorted(expressions, key=lambda e: e.start, reverse=True):
        cast = "(void)" if e.statement else ""
        chain = "".join(f"MUTANT({m.number}) ? {cast}({m.new}) : " for m in e.mutants)
        whole = f"{chain}{cast}({text[e.start:e.end]})"
        text = text[:e.start] + (whole if e.statement else f"({whole})") + text[e.end:]
    return text
