"""The stage compile: kernels, memory, tasks."""

from atcpy.passes.discover import import_modules

import_modules(__name__, __path__)
