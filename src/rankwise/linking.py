"""How kernels are put together from functions: machine code is made once, for the kernel that Python calls.

Numba would give every function that a kernel calls machine code of its own and a way to be called from Python, and
optimise it again in each function that calls it: a third of the time that compiling takes. Here a function that another
one calls is a part: it is optimised and translated where it is used, and nowhere else.
"""

import functools
from typing import Any

from numba.core import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher


class Kernel(CPUDispatcher):
    """A compiled function; others that call it take it as a part."""

    @property
    def _numba_type_(self) -> types.Dispatcher:
        """What stands for it in other functions."""
        return types.Dispatcher(self.part)  # type: ignore[arg-type]

    @functools.cached_property
    def part(self) -> "_Part":
        """The same function as others call it."""
        options = {**self.targetoptions, "no_cpython_wrapper": True}
        return _Part(self.py_func, targetoptions=options, pipeline_class=_PartCompiler)

    def add_overload(self, cres: Any) -> None:
        """Take what was compiled for some types, and let its parts find what their exceptions are made of."""
        super().add_overload(cres)
        for environment in cres._find_referenced_environments():
            cres.library.codegen.set_env(environment.env_name, environment)


class _Part(CPUDispatcher):
    """The same function as other functions call it."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Compile once for all numbers of a type, where Numba would compile once more for every constant."""
        plain = [types.unliteral(each) for each in args]  # type: ignore[no-untyped-call]
        return super().get_call_template(plain, kws)


class _PartCompiler(Compiler):
    """Numba's compiler, but for where its result goes."""

    def define_pipelines(self) -> Any:
        """Give the usual steps."""
        place, name = self.state.targetctx.codegen(), self.state.func_id.func_qualname
        library = _PartLibrary(place, name)  # type: ignore[no-untyped-call]
        library.reordered = bool(self.state.flags.fastmath)
        self.state.library = library
        return super().define_pipelines()  # type: ignore[no-untyped-call]


class _PartLibrary(JITCodeLibrary):
    """What was compiled of a part: linked into others, and never run itself."""

    reordered = False
    """Whether it has fast-math options of its own."""

    @property
    def codegen(self) -> "_PartLibrary":
        """Whom :meth:`set_env` is asked of."""
        return self

    def set_env(self, name: str, environment: object) -> None:
        """Do nothing: it has no place in memory."""

    def _optimize_final_module(self) -> None:
        """Leave that to those that it is linked into, but for what may be reordered.

        Those are the innermost loops, and they vectorise best before other code stands around them.
        """
        if self.reordered:
            super()._optimize_final_module()  # type: ignore[no-untyped-call]

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._finalized = True
